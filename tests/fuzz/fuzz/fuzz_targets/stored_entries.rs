//! What must hold: `dormouse_fuzz::stored_entries`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dormouse_fuzz::stored_entries(data));
