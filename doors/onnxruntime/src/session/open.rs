//! The functions that create and release sessions.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use super::OrtSession;
use super::load::{Source, load};
use crate::arguments::{OutPlace, list, object};
use crate::environment::OrtEnv;
use crate::options::{OrtSessionOptions, PathChar, path};
use crate::release::releases;
use crate::status::{Result, functions};
use bytes::Bytes;
use std::ffi::c_void;
use std::sync::Arc;

/// `OrtPrepackedWeightsContainer`: weights that sessions share. It is always empty, because bb's plans share packed weights without it.
#[derive(Debug)]
pub(crate) struct OrtPrepackedWeightsContainer(());

/// Creates a session from a file.
///
/// # Safety
///
/// The pointers are null or conform to the header.
unsafe fn of_file(
    env: *const OrtEnv,
    file: *const PathChar,
    options: *const OrtSessionOptions,
    out: *mut *mut OrtSession,
) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let (env, file, options, out) = unsafe {
        let out = OutPlace::at(out, "a place for a session")?;
        (object(env, "an environment")?, path(file)?, options.as_ref(), out)
    };
    let shared = Arc::new(load(env, options, &Source::File(&file))?);
    out.give(OrtSession { shared });
    Ok(())
}

/// Creates a session from bytes.
///
/// # Safety
///
/// The pointers are null or conform to the header.
unsafe fn of_bytes(
    env: *const OrtEnv,
    first: *const c_void,
    length: usize,
    options: *const OrtSessionOptions,
    out: *mut *mut OrtSession,
) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let (env, model, options, out) = unsafe {
        let out = OutPlace::at(out, "a place for a session")?;
        (object(env, "an environment")?, list(first.cast::<u8>(), length, "a model")?, options.as_ref(), out)
    };
    let shared = Arc::new(load(env, options, &Source::Bytes(Bytes::copy_from_slice(model)))?);
    out.give(OrtSession { shared });
    Ok(())
}

functions! {
    /// Creates a session from a model file.
    CreateSession(env: *const OrtEnv, file: *const PathChar, options: *const OrtSessionOptions, out: *mut *mut OrtSession) {
        of_file(env, file, options, out)
    }

    /// Creates a session from a serialized model. The bytes are copied.
    CreateSessionFromArray(
        env: *const OrtEnv, model: *const c_void, length: usize, options: *const OrtSessionOptions, out: *mut *mut OrtSession,
    ) {
        of_bytes(env, model, length, options, out)
    }

    /// Creates a session from a model file. The container stays empty.
    CreateSessionWithPrepackedWeightsContainer(
        env: *const OrtEnv, file: *const PathChar, options: *const OrtSessionOptions,
        _weights: *mut OrtPrepackedWeightsContainer, out: *mut *mut OrtSession,
    ) {
        of_file(env, file, options, out)
    }

    /// Creates a session from a serialized model. The bytes are copied. The container stays empty.
    CreateSessionFromArrayWithPrepackedWeightsContainer(
        env: *const OrtEnv, model: *const c_void, length: usize, options: *const OrtSessionOptions,
        _weights: *mut OrtPrepackedWeightsContainer, out: *mut *mut OrtSession,
    ) {
        of_bytes(env, model, length, options, out)
    }

    /// Creates a container, which stays empty.
    CreatePrepackedWeightsContainer(out: *mut *mut OrtPrepackedWeightsContainer) {
        OutPlace::at(out, "a place for a container")?.give(OrtPrepackedWeightsContainer(()));
        Ok(())
    }
}

releases! {
    ReleaseSession(OrtSession);
    ReleasePrepackedWeightsContainer(OrtPrepackedWeightsContainer);
}
