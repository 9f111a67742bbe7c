//! `replay FILE`: folds a recording offline, with the production fold, and shows the state after each
//! entry; the auditor looks at each (B12).

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result, bail};
use dormouse_domain::{
    CallKey, Entry, Fact, Millis, Next, Run,
    audit::{Audit, Violation},
    item::standing,
    next,
    record::{self, Recording},
    run::{Call, CallState},
};
use jiff::Timestamp;

pub(crate) fn run(file: &Path) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let recording = record::read(&text).with_context(|| file.display().to_string())?;
    let mut shown = String::new();
    let faults = replay(&recording, &mut shown);
    print!("{shown}");
    if faults.is_empty() {
        println!("{} entries, and each invariant holds", recording.entries.len());
        return Ok(());
    }
    bail!("{}", faults.join("\n"))
}

/// Writes what each entry made of the run to `shown`; returns what is wrong, in order. It ends at the
/// first entry that cannot be folded.
fn replay(recording: &Recording, shown: &mut String) -> Vec<String> {
    let header = &recording.header;
    let _ =
        writeln!(shown, "{} of agent {}, exported {}", header.run_id, header.definition.name, time(header.exported_at));
    let definition = std::sync::Arc::new(header.definition.clone());
    let mut audit = Audit::of(header.run_id.clone(), definition.clone(), &recording.entries);
    let mut faults = Vec::new();
    let mut folded: Option<Run> = None;
    for entry in &recording.entries {
        let found = audit.entry(entry);
        faults.extend(found.iter().map(Violation::to_string));
        let run = match folded.take() {
            None => Run::start(header.run_id.clone(), definition.clone(), entry),
            Some(mut run) => run.apply(entry).map(|()| run),
        };
        let run = match run {
            Ok(run) => run,
            Err(corrupt) => {
                faults.push(corrupt.to_string());
                return faults;
            }
        };
        faults.extend(audit.state(&run, entry.at).iter().map(Violation::to_string));
        show(entry, &run, shown);
        folded = Some(run);
    }
    if folded.is_none() {
        faults.push("the recording has no entries".to_owned());
    }
    faults
}

/// The entry, and the run after it.
fn show(entry: &Entry, run: &Run, shown: &mut String) {
    let by = entry.driver.as_ref().map_or_else(String::new, |driver| format!(" by {}", driver.0));
    let _ = writeln!(shown, "{:>4} {} {}{by}", entry.index, time(entry.at), entry.fact.kind());
    let (status, due_at) = standing(run, entry.at);
    let driver =
        run.driver.as_ref().map_or_else(String::new, |driver| format!("; driven until {}", time(driver.until)));
    let due = due_at.map_or_else(|| "; never due".to_owned(), |due_at| format!("; due {}", time(due_at)));
    let status = format!("{status:?}").to_lowercase();
    let _ = writeln!(shown, "       {status}; next: {}{driver}{due}", what(&next(run, entry.at)));
    let last = run.turns.last().map_or(0, |turn| turn.index);
    let is_open = |call: &Call| call.key.entry == last || !matches!(call.state, CallState::Done(_));
    for call in run.calls().filter(|call| is_open(call)) {
        let beside = call.moved_on.map_or_else(String::new, |request| format!(", gone on without ({request})"));
        let _ = writeln!(shown, "       call {} {}{beside}: {}", call.key, call.tool, state(&call.state));
    }
    if let Fact::CallFinished { kv, .. } = &entry.fact
        && !kv.is_empty()
    {
        let names: Vec<_> =
            run.state.iter().map(|(name, value)| format!("{name} = {}", cut(&value.to_string()))).collect();
        let _ = writeln!(shown, "       kept for the run: {}", names.join(", "));
    }
    for (key, request) in run.pending() {
        let (wait, decide) = (time(request.windows.wait_until), time(request.windows.decide_by));
        let kind = format!("{:?}", request.kind).to_lowercase();
        let _ = writeln!(
            shown,
            "       request {key}, {kind} of {}: waits until {wait}, can be decided until {decide}",
            about(request.call)
        );
    }
}

/// What a request is about.
fn about(call: Option<CallKey>) -> String {
    call.map_or_else(|| "a ceiling".to_owned(), |call| format!("call {call}"))
}

fn what(next: &Next) -> String {
    let keys = |keys: &[String]| keys.join(", ");
    match next {
        Next::Dispatch(calls) => format!("start {}", keys(&calls.iter().map(ToString::to_string).collect::<Vec<_>>())),
        Next::Await => "take results".to_owned(),
        Next::CallModel => "ask the model".to_owned(),
        Next::Expire(requests) => {
            format!("expire {}", keys(&requests.iter().map(ToString::to_string).collect::<Vec<_>>()))
        }
        Next::StopWaiting(requests) => {
            format!("go on without {}", keys(&requests.iter().map(ToString::to_string).collect::<Vec<_>>()))
        }
        Next::Reopen => "go on to tell of a late decision".to_owned(),
        Next::Finish(outcome) => format!("end, {:?}: {}", outcome.status, outcome.why),
        Next::Rest { open, .. } if !open.is_empty() => {
            format!("ask a person about {}", keys(&open.iter().map(|opened| about(opened.call)).collect::<Vec<_>>()))
        }
        Next::Rest { until: Some(until), .. } => format!("rest until {}", time(*until)),
        Next::Rest { until: None, .. } => "rest".to_owned(),
    }
}

/// A call's state, cut: results can be long.
fn state(state: &CallState) -> String {
    cut(&format!("{state:?}"))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn time(at: Millis) -> String {
    let time = i64::try_from(at.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{} ms", at.0), |time| format!("{time:.3}"))
}
