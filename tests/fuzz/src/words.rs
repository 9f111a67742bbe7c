//! Bytes as choices and texts.

/// What is left of a target's bytes.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next byte; 0 when all are used up.
    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            None => 0,
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
        }
    }

    /// One of `all`, which are not none.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// The next eight bytes as a number.
    pub(crate) fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// The next bytes, as many as the byte before them says, as text.
    pub(crate) fn text(&mut self) -> String {
        let length = usize::from(self.byte()).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    /// All that is left, if it is text.
    pub(crate) fn rest(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }
}
