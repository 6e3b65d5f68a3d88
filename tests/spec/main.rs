//! The specification as tests. One binary, because linking is what takes the time.

mod harness;
