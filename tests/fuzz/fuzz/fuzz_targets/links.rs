//! What must hold: `dormouse_fuzz::links`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dormouse_fuzz::links(data));
