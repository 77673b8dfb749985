//! Renders templates for messages, within the memory that they may keep.
#![no_main]

use bb_fuzz::memory;
use bb_generate::{ChatTemplate, Message};
use libfuzzer_sys::fuzz_target;

/// Memory limit in bytes for rendering: counted memory may exist twice while it grows, and each step keeps some bytes.
const MEMORY: usize = 1 << 30;

fuzz_target!(|data: &[u8]| {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let Ok(template) = ChatTemplate::new(source, "<s>", "</s>") else { return };
    let messages = [Message::new("system", "Be <brief>."), Message::new("user", "Hello\n 'you'")];
    for answer in [false, true] {
        let (rendered, peak) = memory::granted(|| template.render(&messages, answer));
        assert!(peak <= MEMORY, "{peak} bytes");
        if let Err(error) = rendered {
            let _ = error.to_string();
        }
    }
});
