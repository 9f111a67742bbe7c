//! What a call would change in a file, from its stored arguments alone: the file itself can be another
//! one by the time that somebody decides.

use serde::Serialize;
use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use super::{
    LINE_BYTES,
    secret::MASK,
    text::{self, notice},
};
use crate::builtin::Builtin;

/// Lines around a change that are shown with it.
const CONTEXT_LINES: usize = 3;
/// Lines beyond which no smallest change is looked for.
const MAX_COMPARED: usize = 4_000;

/// A preview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Preview {
    /// Text of a file that is taken out and put in.
    Diff {
        /// The file.
        path: String,
        /// Lines that begin with `-` (taken out), `+` (put in), a space (stays), `@` (lines that stay and are
        /// left out) or `\` (the line before it has no line break), and perhaps a notice that the rest was cut.
        text: String,
        /// Whether it is done wherever the text occurs.
        everywhere: bool,
    },
}

/// What a call of this builtin would change, in about `max_bytes` bytes. Nothing if the text is secret.
pub(crate) fn of(builtin: Builtin, masked: &Value, max_bytes: usize) -> Option<Preview> {
    let text = |name: &str| masked.get(name).and_then(Value::as_str);
    let (old, new) = match builtin {
        Builtin::WorkspaceCreate => ("", text("content")?),
        Builtin::WorkspaceEdit => (text("old")?, text("new")?),
        Builtin::AskUser | Builtin::WorkspaceRead | Builtin::WorkspaceGlob | Builtin::WorkspaceSearch => return None,
    };
    if old == MASK || new == MASK {
        return None;
    }
    let everywhere = builtin == Builtin::WorkspaceEdit && masked.get("all") == Some(&Value::Bool(true));
    Some(Preview::Diff { path: text::line(text("path")?, LINE_BYTES), text: diff(old, new, max_bytes), everywhere })
}

fn diff(old: &str, new: &str, max_bytes: usize) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut lines = Lines { text: String::new(), max_bytes, left_out: 0 };
    if old.len() + new.len() > MAX_COMPARED {
        lines.put('-', &old);
        lines.put('+', &new);
        return lines.finish();
    }
    let mut shown = 0;
    let groups = group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), CONTEXT_LINES);
    for op in groups.into_iter().flatten() {
        lines.skip(op.old_range().start - shown);
        shown = op.old_range().end;
        match op {
            DiffOp::Equal { .. } => lines.put(' ', &old[op.old_range()]),
            DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                lines.put('-', &old[op.old_range()]);
                lines.put('+', &new[op.new_range()]);
            }
        }
    }
    lines.skip(old.len() - shown);
    lines.finish()
}

/// Lines of a diff. Each begins with a sign, so that no line of a file can pass for another kind.
struct Lines {
    text: String,
    max_bytes: usize,
    left_out: usize,
}

impl Lines {
    fn put(&mut self, sign: char, lines: &[&str]) {
        for line in lines {
            let room = self.max_bytes.saturating_sub(self.text.len() + 1);
            if room == 0 {
                self.left_out += 1;
                continue;
            }
            self.text.push(sign);
            self.text.push_str(&text::block(line.strip_suffix('\n').unwrap_or(line), room));
            self.text.push('\n');
            if !line.ends_with('\n') {
                self.text.push_str("\\ no line break here\n");
            }
        }
    }

    fn skip(&mut self, count: usize) {
        if count > 0 {
            let plural = if count == 1 { " stays" } else { "s stay" };
            self.text.push_str(&format!("@ {count} line{plural}\n"));
        }
    }

    fn finish(mut self) -> String {
        if self.left_out > 0 {
            self.text.push_str(&notice(self.left_out, "line"));
            self.text.push('\n');
        }
        self.text
    }
}
