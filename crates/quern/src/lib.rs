//! Run open-weight language models on your own machine: the library's front door.
