//! Arguments as a person sees them.

use serde_json::{Map, Value};

use super::{
    secret,
    text::{bounded_block, notice},
};

/// What an element costs beside its text.
const ELEMENT_BYTES: usize = 4;

/// `arguments`, whole, with what is secret masked and what is hidden shown, keys too.
#[must_use]
pub fn arguments(arguments: &Value, secret: &[String]) -> Value {
    shown(&secret::mask(arguments, secret), usize::MAX).0
}

/// `value` with what is hidden shown, in about `max_bytes` bytes, and whether something was left out.
/// Each cut says how much it left out.
pub(crate) fn shown(value: &Value, max_bytes: usize) -> (Value, bool) {
    let mut room = Room { left: max_bytes, cut: false };
    let shown = room.show(value);
    (shown, room.cut)
}

/// A key as it is shown. No two keys are shown alike: it is not cut.
pub(crate) fn key(key: &str) -> String {
    bounded_block(key, usize::MAX).0
}

struct Room {
    left: usize,
    cut: bool,
}

impl Room {
    fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes.saturating_add(ELEMENT_BYTES));
    }

    fn show(&mut self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) => {
                self.take(0);
                value.clone()
            }
            Value::Number(number) => {
                self.take(number.to_string().len());
                value.clone()
            }
            Value::String(text) => {
                let (shown, cut) = bounded_block(text, self.left);
                self.take(shown.len());
                self.cut |= cut;
                shown.into()
            }
            Value::Array(items) => {
                self.take(0);
                let mut list = Vec::new();
                for (i, item) in items.iter().enumerate() {
                    if self.left == 0 {
                        self.cut = true;
                        list.push(notice(items.len() - i, "element").into());
                        break;
                    }
                    list.push(self.show(item));
                }
                Value::Array(list)
            }
            Value::Object(members) => {
                self.take(0);
                Value::Object(self.members(members))
            }
        }
    }

    fn members(&mut self, members: &Map<String, Value>) -> Map<String, Value> {
        let mut map = Map::new();
        for (i, (name, value)) in members.iter().enumerate() {
            let shown = key(name);
            if shown.len() >= self.left {
                self.cut = true;
                let mut rest = "…".to_owned();
                while map.contains_key(&rest) {
                    rest.push('…');
                }
                map.insert(rest, notice(members.len() - i, "member").into());
                break;
            }
            self.take(shown.len());
            map.insert(shown, self.show(value));
        }
        map
    }
}
