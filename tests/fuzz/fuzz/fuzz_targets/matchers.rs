//! What must hold: `dormouse_fuzz::matchers`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dormouse_fuzz::matchers(data));
