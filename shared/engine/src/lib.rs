//! The engine: ports to the world, and the one loop that drives a run. It knows no AWS.

pub mod ports;
