//! A run's recording: its whole journal in one file, to be looked at elsewhere and later (B12).
//!
//! The file is a line of JSON for each thing: first a [`Header`], which holds the frozen definition of
//! the agent, then each entry in its stored form, `{index, entry_id, at, driver?, kind, body}`, and at last
//! `{entries}`, how many there are. Times are milliseconds since the Unix epoch, as they are stored. Nothing
//! else is needed to fold it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    agent::Definition,
    entry::{BadFact, Entry, FORMAT, Fact},
    ids::{DriverId, EntryId, Millis, RunId},
};

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the form of what follows: [`FORMAT`].
    pub format: u32,
    /// The run.
    pub run_id: RunId,
    /// The agent as it was frozen.
    pub definition: Definition,
    /// When this was exported. Later entries are not in it.
    pub exported_at: Millis,
}

/// An entry's line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    index: u32,
    entry_id: EntryId,
    at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    driver: Option<DriverId>,
    kind: String,
    body: Box<RawValue>,
}

/// The last line: without it nobody could tell a file that was cut between two lines.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    entries: u32,
}

impl Header {
    /// The header's line, without its line break.
    ///
    /// # Errors
    /// If serde cannot serialize it, which no definition gives cause for.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// The line of `entry`, without its line break.
///
/// # Errors
/// As [`Fact::encode`].
pub fn line(entry: &Entry) -> Result<String, serde_json::Error> {
    let (kind, body) = entry.fact.encode()?;
    let Entry { index, entry_id, at, driver, fact: _ } = entry.clone();
    serde_json::to_string(&Line {
        index,
        entry_id,
        at,
        driver,
        kind: kind.to_owned(),
        body: RawValue::from_string(body)?,
    })
}

/// The last line of a recording of `entries` entries, without its line break.
///
/// # Errors
/// If serde cannot serialize it, which a number gives no cause for.
pub fn end(entries: u32) -> Result<String, serde_json::Error> {
    serde_json::to_string(&End { entries })
}

/// A recording, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Its header.
    pub header: Header,
    /// Its entries, as they stand in it: not necessarily a journal.
    pub entries: Vec<Entry>,
}

/// A file that is no recording, or not a whole one.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// Its end is missing.
    #[error("line {0} has no end: the file is cut off there")]
    Cut(usize),
    /// Its last line is missing.
    #[error("the last line is missing: after {0} entries the rest was not fetched (`Link`), or was cut off")]
    NoEnd(usize),
    /// Its last line stands in its midst.
    #[error("line {0} ends the recording, but more follows: leave that line out where a later export goes on")]
    Ended(usize),
    /// It has more or fewer entries than it had.
    #[error("there are {found} entries; the last line says {said}")]
    Count {
        /// As the last line says.
        said: u32,
        /// As they stand there.
        found: usize,
    },
    /// The first line is not a header.
    #[error("line 1 is not the header of a recording: {0}")]
    Header(serde_json::Error),
    /// It was written by a later release.
    #[error("the recording has format version {0}; this release reads {FORMAT} at most")]
    Format(u32),
    /// A line is not an entry.
    #[error("line {line} is not an entry: {error}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// A line is an entry whose fact cannot be read.
    #[error("line {line}, entry {index}: {error}")]
    Fact {
        /// Which, from 1.
        line: usize,
        /// The entry's index.
        index: u32,
        /// What is wrong with it.
        error: BadFact,
    },
}

/// Reads a recording. Whether its entries are a journal is for the fold and the auditor to say.
///
/// # Errors
/// [`Unreadable`], with the line.
pub fn read(text: &str) -> Result<Recording, Unreadable> {
    let (first, rest) =
        text.split_once('\n').ok_or(if text.is_empty() { Unreadable::Empty } else { Unreadable::Cut(1) })?;
    let header: Header = serde_json::from_str(first).map_err(Unreadable::Header)?;
    if header.format > FORMAT {
        return Err(Unreadable::Format(header.format));
    }
    let (mut entries, mut ended) = (Vec::new(), None);
    for (line, text) in (2..).zip(rest.split_inclusive('\n')) {
        let text = text.strip_suffix('\n').ok_or(Unreadable::Cut(line))?;
        if ended.is_some() {
            return Err(Unreadable::Ended(line - 1));
        }
        if let Ok(End { entries }) = serde_json::from_str(text) {
            ended = Some(entries);
            continue;
        }
        let Line { index, entry_id, at, driver, kind, body } =
            serde_json::from_str(text).map_err(|error| Unreadable::Line { line, error })?;
        let fact = Fact::decode(&kind, body.get()).map_err(|error| Unreadable::Fact { line, index, error })?;
        entries.push(Entry { index, entry_id, at, driver, fact });
    }
    let (found, said) = (entries.len(), ended.ok_or(Unreadable::NoEnd(entries.len()))?);
    if u32::try_from(found) != Ok(said) {
        return Err(Unreadable::Count { said, found });
    }
    Ok(Recording { header, entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent_file, entry::DriverStop};

    fn header() -> Header {
        let definition = agent_file::parse("models = [\"a:b\"]", "ops", 60_000).unwrap();
        Header { format: FORMAT, run_id: RunId::from_bits(1), definition, exported_at: Millis(5) }
    }

    fn entry() -> Entry {
        let stop = DriverStop::Crashed { message: "a\n\"b\"".into() };
        let (entry_id, driver) = (EntryId("e".into()), Some(DriverId::new("h", "1")));
        Entry { index: 3, entry_id, at: Millis(7), driver, fact: Fact::DriverStopped { stop } }
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let text = format!("{}\n{}\n{}\n", header().line().unwrap(), line(&entry()).unwrap(), end(1).unwrap());
        let stored =
            r#"{"index":3,"entry_id":"e","at":7,"driver":"h.1","kind":"DriverStopped","body":{"reason":"crashed","#;
        assert!(text.contains(stored), "{text}");
        assert_eq!(read(&text).unwrap(), Recording { header: header(), entries: vec![entry()] });
    }

    #[test]
    fn what_is_no_recording_is_told_with_its_line() {
        let (first, second) = (header().line().unwrap(), line(&entry()).unwrap());
        let later = first.replace("\"format\":1", "\"format\":2");
        for (text, told) in [
            (String::new(), "empty"),
            (first.clone(), "line 1 has no end"),
            (format!("{first}\n{}", &second[..40]), "line 2 has no end"),
            (format!("{first}\n{second}\n{second}"), "line 3 has no end"),
            (format!("{second}\n"), "line 1 is not the header"),
            (format!("{first}\n\n{second}\n"), "line 2 is not an entry"),
            (format!("{first}\n{}\n", second.replace("\"at\":7,", "")), "line 2 is not an entry"),
            (
                format!("{first}\n{}\n", second.replace("DriverStopped", "RunTeleported")),
                "line 2, entry 3: entry of kind",
            ),
            (format!("{later}\n"), "format version 2"),
            (format!("{first}\n{second}\n"), "after 1 entries the rest was not fetched"),
            (format!("{first}\n"), "after 0 entries the rest was not fetched"),
            (
                format!("{first}\n{second}\n{{\"entries\":1}}\n{second}\n"),
                "line 3 ends the recording, but more follows",
            ),
            (format!("{first}\n{second}\n{{\"entries\":2}}\n"), "there are 1 entries; the last line says 2"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
