//! The stacks on one machine, under which the same handlers run as on AWS.

pub mod emulators;
