//! The flight recorder: `GET /v1/runs/{id}/export?from=<index>` answers the run's recording, line by
//! line, as [`dormouse_domain::record`] describes it (B12).
//!
//! An answer is bounded. Where there is more, it has a `Link` to the rest (RFC 8288), relative to its
//! own address: the pages one after the other are the file.

use dormouse_domain::{
    Entry,
    entry::FORMAT,
    record::{self, Header},
};
use dormouse_engine::{Engine, Problem as Cause};

use crate::{
    call::Call,
    problem::{Problem, Reply},
};

/// Entries read from the store at once: few, because one can have 3 MiB.
const ENTRIES_AT_ONCE: u32 = 25;
/// Bytes of a page at most, as they stand in the function's answer, but for a page of a single entry.
/// An answer has 6 MB at most.
const PAGE_BYTES: usize = 2_500_000;

pub(crate) async fn page(engine: &Engine, call: &Call<'_>) -> Result<Reply, Problem> {
    let run = call.run_id()?;
    let from = call.number("from", 0, u32::MAX)?.unwrap_or(0);
    let definition = engine.definition(&call.by, &run).await?;
    let mut text = String::new();
    if from == 0 {
        let (definition, exported_at) = ((*definition).clone(), engine.ports().clock.now());
        let header = Header { format: FORMAT, run_id: run.clone(), definition, exported_at };
        put(&mut text, header.line())?;
    }
    let (mut next, mut quoted_bytes) = (from, quoted_bytes(&text));
    loop {
        let read: Vec<Entry> = engine.more_entries(&run, next, ENTRIES_AT_ONCE).await?;
        let last = read.len() < ENTRIES_AT_ONCE as usize;
        for entry in read {
            let mut line = String::new();
            put(&mut line, record::line(&entry))?;
            quoted_bytes += self::quoted_bytes(&line);
            if next > from && quoted_bytes > PAGE_BYTES {
                return Ok(Reply::lines(text).header("link", format!("<?from={next}>; rel=\"next\"")));
            }
            text.push_str(&line);
            next = entry.index + 1;
        }
        if last {
            // Nothing new since an earlier export is an empty answer.
            if next > from {
                put(&mut text, record::end(next))?;
            }
            return Ok(Reply::lines(text));
        }
    }
}

fn put(text: &mut String, line: Result<String, serde_json::Error>) -> Result<(), Problem> {
    text.push_str(&line.map_err(|error| Cause::Corrupt(error.into()))?);
    text.push('\n');
    Ok(())
}

/// Bytes of `text` within a function's answer, where it is a JSON string once more.
fn quoted_bytes(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\' | b'\n')).count();
    text.len() + escaped
}
