//! Sixty-four deciders, a third of them through links, at the exact moment at which a request can no longer be decided,
//! with the sweep and without: the list, the decision by API and by link, and the sweep agree (E1, E2, E11, cases 1, 2, 20 and 24).
//!
//! `frozen` sets the clock to the very millisecond, above DynamoDB's own client; `live` is the whole
//! stack over HTTP in real time.

mod frozen;
mod live;

/// How many decide at once.
const DECIDERS: usize = 64;
