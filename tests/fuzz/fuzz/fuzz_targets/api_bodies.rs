//! What must hold: `dormouse_fuzz::api_bodies`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dormouse_fuzz::api_bodies(data));
