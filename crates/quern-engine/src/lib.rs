//! Requests in, events out: scheduling, sampling, stops.
