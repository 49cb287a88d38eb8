//! Requests in, events out: scheduling, sampling, stops.

pub mod sampling;
pub mod stops;
