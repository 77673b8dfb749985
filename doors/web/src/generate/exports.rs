//! The functions that JavaScript calls to generate text.

#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, since two functions may claim one name"
)]

use super::{LanguageModel, random};
use crate::buffers;
use crate::exports::answer;
use crate::failure::Failure;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local! {
    static MODELS: RefCell<BTreeMap<u32, LanguageModel>> = RefCell::default();
}

/// Seeds the random bits with 64 bits from JavaScript.
#[unsafe(no_mangle)]
extern "C" fn bb_seed(high: u32, low: u32) {
    random::seed(u64::from(high) << 32 | u64::from(low));
}

/// Opens a language model, with options as JSON.
#[unsafe(no_mangle)]
extern "C" fn bb_generator(model: u32, options: u32) -> u32 {
    let (model, options) = (buffers::take(model), buffers::take(options));
    answer(LanguageModel::open(model, &options).map_err(Failure::of_model).map(|model| {
        MODELS.with_borrow_mut(|models| {
            let number = models.last_key_value().map_or(1, |(last, _)| last.wrapping_add(1));
            let record = model.describe();
            models.insert(number, model);
            json!({ "number": number, "model": record })
        })
    }))
}

/// Closes a language model.
#[unsafe(no_mangle)]
extern "C" fn bb_generator_close(model: u32) {
    drop(MODELS.with_borrow_mut(|models| models.remove(&model)));
}

/// Begins a generation, with a request as JSON.
#[unsafe(no_mangle)]
extern "C" fn bb_generate(model: u32, request: u32) -> u32 {
    let request = buffers::take(request);
    answer(of(model, |model| model.begin(&request)))
}

/// Performs the next step of a generation.
#[unsafe(no_mangle)]
extern "C" fn bb_generate_next(model: u32, generation: u32) -> u32 {
    answer(of(model, |model| model.next(generation)))
}

/// Ends a generation.
#[unsafe(no_mangle)]
extern "C" fn bb_generate_stop(model: u32, generation: u32) -> u32 {
    answer(of(model, |model| {
        model.stop(generation);
        Ok(json!(null))
    }))
}

/// Calls a function with a language model.
fn of<T>(number: u32, f: impl FnOnce(&mut LanguageModel) -> Result<T, Failure>) -> Result<T, Failure> {
    MODELS.with_borrow_mut(|models| {
        f(models.get_mut(&number).ok_or(Failure::NoLanguageModel { model: number })?)
    })
}
