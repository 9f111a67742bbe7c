//! What must hold: `dormouse_fuzz::policy_files`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dormouse_fuzz::policy_files(data));
