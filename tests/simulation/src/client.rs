//! How people reach the engine: one invocation of a function behind the API, which can die, and whose
//! answer is then nothing at all.

use std::{sync::Arc, time::Duration};

use dormouse_domain::{
    Caller, Digest, Principal, RequestId, RunId,
    decide::{Answer, Refusal},
    request::Settled,
    token::shareable,
};
use dormouse_engine::{Engine, IdempotencyKey, Problem, Responded};

use crate::{
    actor::{Actor, Life},
    hosts::Host,
    ledger::Told,
    sim::locked,
    world::World,
};

/// How long such a function has.
const LIMIT: Duration = Duration::from_secs(29);
/// How often a client repeats a write under the same key whose outcome it does not know.
pub(crate) const TRIES: usize = 3;

/// A key of this name, for a write of this content.
pub(crate) fn key(name: &str, content: &str) -> IdempotencyKey {
    IdempotencyKey { key: name.to_owned(), fingerprint: Digest::of(content.as_bytes()) }
}

impl World {
    /// One of the API's machines.
    pub(crate) fn api_host(&self) -> Arc<Host> {
        Arc::clone(&self.api[usize::from(self.sim.dice.chance(500))])
    }

    /// Asks the engine on `host`, in an invocation of its own.
    pub(crate) async fn ask<T, F>(
        self: &Arc<Self>,
        host: &Arc<Host>,
        what: &str,
        ask: impl FnOnce(Engine) -> F + Send + 'static,
    ) -> Told<T>
    where
        F: Future<Output = Result<T, Problem>> + Send + 'static,
        T: Send + 'static,
    {
        self.ask_as(host, host.invocation(false), what, ask).await
    }

    /// Asks the engine on `host`, in this invocation.
    async fn ask_as<T, F>(
        self: &Arc<Self>,
        host: &Arc<Host>,
        actor: Arc<Actor>,
        what: &str,
        ask: impl FnOnce(Engine) -> F + Send + 'static,
    ) -> Told<T>
    where
        F: Future<Output = Result<T, Problem>> + Send + 'static,
        T: Send + 'static,
    {
        let engine = host.engine.clone();
        let called = actor.live(LIMIT, async move { ask(engine).await });
        let told = match called.await {
            Life::Done(Ok(answer)) => Told::Done(answer),
            Life::Done(Err(problem)) => self.read(problem),
            Life::Died | Life::TimedOut => Told::Nothing,
        };
        let shown = told.status();
        self.sim.say(format_args!("{}: {what}: {shown}", actor.name));
        self.sim.count(format!("answer {shown}"));
        told
    }

    fn read<T>(&self, problem: Problem) -> Told<T> {
        match problem {
            Problem::Refused(Refusal::AlreadyDecided(settled)) => Told::AlreadyDecided(*settled),
            Problem::Refused(Refusal::Gone(status)) => Told::Gone(status),
            Problem::Unavailable(_) => Told::NotNow,
            Problem::Unknown(_) => Told::Unknown,
            Problem::Corrupt(source) => {
                self.sim.accuse(format!("what is stored cannot be read: {source}"));
                Told::Nothing
            }
            other @ (Problem::NotFound(_)
            | Problem::UnknownAgent { .. }
            | Problem::Invalid(_)
            | Problem::WrongState(_)
            | Problem::Refused(_)
            | Problem::KeyReused
            | Problem::Gone(_)
            | Problem::NotSetUp(_)
            | Problem::NotEntitled { .. }
            | Problem::TooLarge(_)) => Told::Refused(other.to_string()),
        }
    }

    /// Answers a request, once, in an invocation of its own, and enters what came of it.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        host: &Arc<Host>,
        id: &RequestId,
        answer: &Answer,
        key: Option<&IdempotencyKey>,
    ) -> Told<Responded> {
        self.answer_as(host, host.invocation(false), id, answer, key).await
    }

    /// The same, in this invocation.
    pub(crate) async fn answer_as(
        self: &Arc<Self>,
        host: &Arc<Host>,
        actor: Arc<Actor>,
        id: &RequestId,
        answer: &Answer,
        key: Option<&IdempotencyKey>,
    ) -> Told<Responded> {
        let (by, request, given, with) = (self.owner.clone(), id.clone(), answer.clone(), key.cloned());
        let what = format!("{:?} {}", answer.decision, id.key);
        // A link of one's own is another way to the same decision; a key is only good for one way.
        let by_link = key.is_none() && shareable(answer.decision) && self.sim.dice.chance(300);
        if by_link {
            self.sim.count("answered by link");
        }
        // Who gives up waiting knows nothing.
        let entered = self.enter(id, answer);
        let told = self
            .ask_as(host, actor, &what, move |engine| async move {
                if !by_link {
                    return engine.respond(&by, &request, &given, with.as_ref()).await;
                }
                let made = engine.make_link(&by, &request, None, None).await?;
                engine.respond_by_link(&made.token, &given, None).await
            })
            .await;
        let settled = match &told {
            Told::Done(responded) => Told::Done(responded.decision.clone()),
            Told::AlreadyDecided(settled) => Told::AlreadyDecided(settled.clone()),
            Told::Gone(status) => Told::Gone(*status),
            Told::NotNow => Told::NotNow,
            Told::Unknown => Told::Unknown,
            Told::Nothing => Told::Nothing,
            Told::Refused(why) => Told::Refused(why.clone()),
        };
        if let Some((.., known)) = locked(&self.ledger.answers).get_mut(entered) {
            *known = settled;
        }
        told
    }

    fn enter(&self, id: &RequestId, answer: &Answer) -> usize {
        let mut answers = locked(&self.ledger.answers);
        answers.push((id.clone(), answer.clone(), Told::<Settled>::Nothing));
        answers.len() - 1
    }

    /// Somebody else tries: to them it does not exist (A16).
    pub(crate) async fn trespass(self: &Arc<Self>, run: RunId, id: RequestId, answer: Answer) {
        let stranger: Caller = Principal { subject: "bob".to_owned(), ..self.owner.principal.clone() }.into();
        let host = self.api_host();
        let what = format!("stranger {:?} {}", answer.decision, id.key);
        let told = self
            .ask(&host, &what, move |engine| async move {
                match engine.run_view(&stranger, &run).await {
                    Err(Problem::NotFound(_)) => engine.respond(&stranger, &id, &answer, None).await.map(drop),
                    Ok(_) => Ok(()),
                    Err(problem) => Err(problem),
                }
            })
            .await;
        let denied = matches!(&told, Told::Refused(why) if why.starts_with("there is no such"));
        let failed = matches!(told, Told::NotNow | Told::Unknown | Told::Nothing);
        self.sim.ensure(denied || failed, || format!("A16: a stranger was told {}", told.status()));
    }
}

impl<T> Told<T> {
    /// As an HTTP status, roughly.
    pub(crate) fn status(&self) -> &'static str {
        match self {
            Self::Done(_) => "200",
            Self::AlreadyDecided(_) => "409",
            Self::Gone(_) => "410",
            Self::NotNow => "503",
            Self::Unknown => "503 unknown",
            Self::Nothing => "nothing",
            Self::Refused(_) => "4xx",
        }
    }
}
