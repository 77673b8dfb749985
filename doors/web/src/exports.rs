//! The functions that JavaScript calls.

#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, since two functions may claim one name"
)]

use crate::buffers;
use crate::failure::Failure;
use crate::magika::Identifier;
use crate::session::{Checked, Session};
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

thread_local! {
    static SESSIONS: RefCell<BTreeMap<u32, Rc<Session>>> = RefCell::default();
    static IDENTIFIER: RefCell<Option<Identifier>> = RefCell::default();
    static PANIC: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cfg(target_family = "wasm")]
unsafe extern "C" {
    /// Runs the constructors, which register the backends. The linker generates this function.
    fn __wasm_call_ctors();
}

/// Initializes the instance. JavaScript calls this function once, before any other.
#[unsafe(no_mangle)]
extern "C" fn bb_start() {
    #[cfg(target_family = "wasm")]
    // SAFETY: the linker generates the function, and nothing else calls it.
    unsafe {
        __wasm_call_ctors();
    }
    let advice = bb_core::error::DoorAdvice {
        backend: "the module has no others",
        left_out: "the module was built without it",
        remove: None,
        limits: "",
    };
    advice.give();
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        PANIC.with_borrow_mut(|last| *last = text.into_bytes());
    }));
}

/// Returns the message of the panic that ended the instance, as a buffer.
#[unsafe(no_mangle)]
extern "C" fn bb_panic() -> u32 {
    buffers::keep(PANIC.take().into())
}

/// Creates a buffer of zeros. Returns 0 if there is not enough memory.
#[unsafe(no_mangle)]
extern "C" fn bb_buffer(length: usize) -> u32 {
    buffers::open(length)
}

/// Returns the address of a buffer's first byte. The address is valid until the next call of another function, because that may move the
/// memory.
#[unsafe(no_mangle)]
extern "C" fn bb_address(buffer: u32) -> usize {
    buffers::place(buffer).0
}

/// Returns the number of bytes of a buffer.
#[unsafe(no_mangle)]
extern "C" fn bb_length(buffer: u32) -> usize {
    buffers::place(buffer).1
}

/// Drops a buffer.
#[unsafe(no_mangle)]
extern "C" fn bb_drop(buffer: u32) {
    drop(buffers::take(buffer));
}

/// Lists the linked backends.
#[unsafe(no_mangle)]
extern "C" fn bb_backends() -> u32 {
    answer(Ok(bb::Registry::global().entries().map(|entry| entry.name).collect()))
}

/// Opens a session for a model, with options as JSON.
#[unsafe(no_mangle)]
extern "C" fn bb_open(model: u32, options: u32) -> u32 {
    let (model, options) = (buffers::take(model), buffers::take(options));
    answer(Session::open(model, &options).map_err(Failure::of_model).map(|session| {
        SESSIONS.with_borrow_mut(|sessions| {
            let number = sessions.last_key_value().map_or(1, |(last, _)| last.wrapping_add(1));
            let record = session.describe();
            sessions.insert(number, Rc::new(session));
            json!({ "session": number, "model": record })
        })
    }))
}

/// Describes a model, which need not be runnable: ports, coverage and graph.
#[unsafe(no_mangle)]
extern "C" fn bb_inspect(model: u32, options: u32) -> u32 {
    let (model, options) = (buffers::take(model), buffers::take(options));
    answer(Checked::open(model, &options).map_err(Failure::of_model).map(|checked| checked.describe()))
}

/// Closes a session.
#[unsafe(no_mangle)]
extern "C" fn bb_close(session: u32) {
    drop(SESSIONS.with_borrow_mut(|sessions| sessions.remove(&session)));
}

/// Runs a session's model.
#[unsafe(no_mangle)]
extern "C" fn bb_run(session: u32, request: u32) -> u32 {
    let request = buffers::take(request);
    answer(of(session).and_then(|session| session.run(&request)))
}

/// Reports how each node runs.
#[unsafe(no_mangle)]
extern "C" fn bb_coverage(session: u32) -> u32 {
    answer(of(session).map(|session| session.checked().coverage()))
}

/// Describes the graph, with a position for each node.
#[unsafe(no_mangle)]
extern "C" fn bb_graph(session: u32) -> u32 {
    answer(of(session).map(|session| session.checked().graph()))
}

/// Sets the configuration of Magika's model for [`bb_identify`], and returns the size of the blocks that it reads from a file.
#[unsafe(no_mangle)]
extern "C" fn bb_magika(config: u32) -> u32 {
    let config = buffers::take(config);
    let identifier = serde_json::from_slice::<crate::magika::Config>(&config).map(Identifier::new);
    answer(identifier.map_err(|source| Failure::Json { what: "the configuration", source }).map(
        |identifier| {
            let block_size = identifier.block_size();
            IDENTIFIER.set(Some(identifier));
            json!({ "block_size": block_size })
        },
    ))
}

/// Determines the type of a file from the file's first and last block, with a session of Magika's model.
#[unsafe(no_mangle)]
extern "C" fn bb_identify(session: u32, first: u32, last: u32) -> u32 {
    let (first, last): (Bytes, Bytes) = (buffers::take(first), buffers::take(last));
    answer(of(session).and_then(|session| {
        IDENTIFIER.with_borrow(|identifier| {
            let identifier = identifier.as_ref().ok_or(Failure::NoConfiguration)?;
            let guess = identifier.identify(&first, &last, |tokens| session.scores(tokens))?;
            Ok(json!({ "label": guess.label, "score": guess.score }))
        })
    }))
}

fn of(session: u32) -> Result<Rc<Session>, Failure> {
    let found = SESSIONS.with_borrow(|sessions| sessions.get(&session).cloned());
    found.ok_or(Failure::NoSession { session })
}

/// Writes an answer as JSON to a buffer.
pub(crate) fn answer(result: Result<Json, Failure>) -> u32 {
    let json = match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error.describe() }),
    };
    buffers::keep(json.to_string().into_bytes().into())
}
