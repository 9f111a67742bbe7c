//! Who makes a call: one invocation of one function, which can die at any moment.
//!
//! The network asks who calls ([`current`]) and can kill the caller before or after a call. A dead
//! invocation is dropped where it waits and is never polled again, as if its machine had lost power.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

/// What a service says of a write whose condition does not hold.
const CONDITION: &[u8] = b"ConditionalCheckFailed";

tokio::task_local! {
    static ACTOR: Arc<Actor>;
}

/// One invocation.
pub(crate) struct Actor {
    /// Its name, `<host>.<number>`.
    pub(crate) name: String,
    /// Whether its calls take no time: only then can somebody act at an exact moment.
    pub(crate) instant: bool,
    killed: Notify,
    harmed: AtomicBool,
    /// Writes in a row that others were in the way of.
    beaten: AtomicU32,
}

/// How an invocation ended.
pub(crate) enum Life<T> {
    /// It returned.
    Done(T),
    /// It died.
    Died,
    /// Its platform ended it at its deadline.
    TimedOut,
}

/// The invocation that is being polled, if one is.
pub(crate) fn current() -> Option<Arc<Actor>> {
    ACTOR.try_with(Arc::clone).ok()
}

impl Actor {
    /// An invocation of this name.
    pub(crate) fn new(name: impl Into<String>, instant: bool) -> Arc<Self> {
        let (killed, harmed, beaten) = (Notify::new(), AtomicBool::new(false), AtomicU32::new(0));
        Arc::new(Self { name: name.into(), instant, killed, harmed, beaten })
    }

    /// The host that it runs on.
    pub(crate) fn host(&self) -> &str {
        self.name.split_once('.').map_or(self.name.as_str(), |(host, _)| host)
    }

    /// Enters that something went wrong with one of its calls.
    pub(crate) fn harm(&self) {
        self.harmed.store(true, Ordering::Relaxed);
    }

    /// Whether something did.
    pub(crate) fn is_harmed(&self) -> bool {
        self.harmed.load(Ordering::Relaxed)
    }

    /// Enters that a call did what it was for, or that a condition did not hold. Returns how often in a row it did not.
    pub(crate) fn beaten(&self, status: u16, reply: &[u8]) -> u32 {
        let lost = status == 400 && reply.windows(CONDITION.len()).any(|window| window == CONDITION);
        if lost {
            return self.beaten.fetch_add(1, Ordering::Relaxed) + 1;
        }
        self.beaten.store(0, Ordering::Relaxed);
        0
    }

    /// Kills it. Whoever calls this from within it must wait for ever afterwards.
    pub(crate) fn kill(&self) {
        self.killed.notify_one();
    }

    /// Lives `life`, for `limit` at most.
    pub(crate) async fn live<T>(self: &Arc<Self>, limit: Duration, life: impl Future<Output = T>) -> Life<T> {
        tokio::select! {
            biased;
            () = self.killed.notified() => Life::Died,
            done = ACTOR.scope(Arc::clone(self), life) => Life::Done(done),
            () = tokio::time::sleep(limit) => Life::TimedOut,
        }
    }
}
