//! The text of `include/bb.h`.

use crate::abi::{self, ParameterKind, status};
use bb_ir::DataType;

/// Writes a type of list.
fn list(name: &str, item: &str) -> String {
    format!("typedef struct {name} {{\n    const {item} *items;\n    size_t count;\n}} {name};\n")
}

fn constants() -> String {
    let mut all = format!(
        "#define BB_VERSION {}u\n#define BB_MAGIC {:#018x}ull\n#define BB_UNLOADS {}u\n\
         /* The primitives of this header, by a hash of their rows. */\n#define BB_PRIMITIVES {:#018x}ull\n\n",
        abi::VERSION,
        abi::MAGIC,
        abi::UNLOADS,
        bb_ir::op::primitives_fingerprint(usize::MAX),
    );
    let enumeration = |about: &str, rows: Vec<String>| {
        format!("/* {about} */\nenum {{\n    {}\n}};\n\n", rows.join(",\n    "))
    };
    let mut statuses = vec![format!("BB_OK = {}", status::OK)];
    statuses.extend(status::KINDS.iter().map(|(_, number, name)| format!("{name} = {number}")));
    statuses.push(format!("BB_PANICKED = {}", status::PANICKED));
    all += &enumeration("What functions return.", statuses);
    let types = DataType::ALL.iter().map(|t| format!("BB_{} = {}", t.name().to_uppercase(), t.to_onnx()));
    all += &enumeration("Element types, by ONNX's numbers.", types.collect());
    use ParameterKind as K;
    let kinds = [K::Nothing, K::Integer, K::Number, K::Integers, K::Numbers, K::Extents, K::Text, K::Data];
    let kinds =
        kinds.iter().map(|k| format!("BB_PARAMETER_{} = {}", format!("{k:?}").to_uppercase(), *k as i32));
    all += &enumeration("The kinds of bb_parameter.", kinds.collect());
    all += &enumeration(
        "How `cast` rounds to f8e8m0.",
        vec!["BB_UP = 0".into(), "BB_DOWN = 1".into(), "BB_NEAREST = 2".into()],
    );
    all
}

const HEAD: &str = "\
/*
 * bb.h: backends of bb in C, and bb in programs in C.
 *
 * A backend is a library that exports one constant, `bb_backend_library`. A program that runs models calls the functions at the end, and
 * links the library `bb_host`.
 *
 * The types in this file are written from those of Rust. Structures that may grow begin with their size, and grow only at their end.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef BB_H
#define BB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

";

const HOST: &str = "\
/*
 * Programs that run models. All functions may be called from any thread, and one session from several at once. Where one may fail, it
 * returns a status, and writes why to `error`, which may be null.
 */
typedef struct bb_session bb_session;
typedef struct bb_run bb_run;
typedef struct bb_cancel bb_cancel;

/* An input or output of a session. An extent that is not fixed is SIZE_MAX. The texts and extents live as long as the session. */
typedef struct bb_port {
    bb_text name;
    int32_t dtype;
    size_t rank;
    const size_t *shape;
} bb_port;

/* An input of a run: a tensor in memory of the caller, which is read during the call. */
typedef struct bb_input {
    bb_text name;
    bb_data data;
} bb_input;

/* What a model says of itself. The texts live as long as the session; a compiled model says nothing. */
typedef struct bb_model {
    /* The size of this structure, which the caller writes. */
    size_t size;
    /* The program that wrote the model. */
    bb_text producer;
    /* The name of the graph. */
    bb_text graph;
    bb_text domain;
    bb_text description;
    bb_text graph_description;
    int64_t version;
    /* Entries by name, which programs such as trainers write. */
    bb_named_list entries;
} bb_model;

/* What a run may be told. All zero but `size` is a run without options. */
typedef struct bb_run_options {
    /* The size of this structure. */
    size_t size;
    /* After so many milliseconds the run ends with BB_CANCELLED; 0 for as long as it takes. */
    uint64_t timeout_ms;
    /* What ends the run with BB_CANCELLED; may be null. */
    const bb_cancel *cancel;
    /* The names of the values that the run gives, in this order: outputs, and values between nodes. None for all outputs. */
    bb_texts values;
} bb_run_options;

/* Returns BB_VERSION of the library. */
uint32_t bb_version(void);

/* Makes the backends of a library known by name, for all sessions of the process that are opened later. `path` ends with a zero. */
int32_t bb_load_backend(const char *path, bb_error *error);

/*
 * Opens a model file, or a model in memory, on the backend with this name (`cpu`, `first_of(mine, cpu)`, `metrics+mine`).
 *
 * The options are names and values, both of them texts. A name that nobody knows is BB_CONFIGURATION.
 *
 *   device, threads, memory   which device, how many threads, how many bytes at most; of a backend that has such a choice
 *   narrow_floats             `true` lets a backend without a float type round its elements to one that it has
 *   limits.NAME               a limit on models from strangers, as in `limits.model_bytes` (bb/docs/limits.md)
 *   any other                 an option of the backend's own; `bb backends` lists them
 */
int32_t bb_session_open(const char *path, const char *backend, bb_named_list options, bb_session **session, bb_error *error);
int32_t bb_session_open_bytes(bb_text model, const char *backend, bb_named_list options, bb_session **session, bb_error *error);
void bb_session_close(bb_session *session);

size_t bb_session_input_count(const bb_session *session);
size_t bb_session_output_count(const bb_session *session);
/* Writes a port by its position; BB_WRONG_INPUT if there is none. */
int32_t bb_session_input(const bb_session *session, size_t position, bb_port *port);
int32_t bb_session_output(const bb_session *session, size_t position, bb_port *port);

/* Writes what the model says of itself. */
int32_t bb_session_model(const bb_session *session, bb_model *model);

/* Makes what ends runs: all that have it, once any thread calls `bb_cancel_runs`. It is freed when no run has it any more. */
bb_cancel *bb_cancel_new(void);
void bb_cancel_runs(const bb_cancel *cancel);
void bb_cancel_free(bb_cancel *cancel);

/* Runs the model. The outputs are in the order of the session, and live until `bb_run_free`. */
int32_t bb_session_run(const bb_session *session, const bb_input *inputs, size_t count, bb_run **run, bb_error *error);
/* Runs the model with options, which may be null. The outputs are in the order of the options' names, if there are any. */
int32_t bb_session_run_with(const bb_session *session, const bb_input *inputs, size_t count, const bb_run_options *options, bb_run **run, bb_error *error);
size_t bb_run_output_count(const bb_run *run);
/* Writes an output by its position; BB_WRONG_INPUT if there is none. */
int32_t bb_run_output(const bb_run *run, size_t position, bb_data *data);
void bb_run_free(bb_run *run);

#ifdef __cplusplus
}
#endif

#endif
";

/// Returns the whole header.
pub fn header() -> String {
    let mut text = HEAD.to_owned();
    text += &constants();
    text += "typedef struct bb_backend bb_backend;\ntypedef struct bb_tensor bb_tensor;\n";
    for layout in abi::layouts() {
        text += &format!("typedef struct {0} {0};\n", layout.name);
    }
    text += "\n/* Lists, which are lent for a call. A text is UTF-8, and no zero ends it. */\n";
    for (name, item) in [
        ("bb_text", "char"),
        ("bb_ints", "int64_t"),
        ("bb_extents", "size_t"),
        ("bb_tensors", "bb_tensor *const"),
        ("bb_texts", "bb_text"),
        ("bb_named_list", "bb_named"),
        ("bb_options", "bb_option"),
        ("bb_parameters", "bb_parameter"),
    ] {
        text += &list(name, item);
    }
    text += "\n/* Receives a device. */\ntypedef void (*bb_device)(void *context, bb_text name, bb_text description);\n";
    text += "/* Receives the end of a run: BB_OK and the results, or why it failed. */\n\
             typedef void (*bb_done)(void *context, int32_t status, bb_text text, const bb_result *results, size_t count);\n\n";
    for layout in abi::layouts() {
        text += &(layout.text)();
        text += "\n";
    }
    text += "/* What a library of a backend defines. */\n#if defined(_WIN32)\n#define BB_EXPORT __declspec(dllexport)\n#else\n\
             #define BB_EXPORT __attribute__((visibility(\"default\")))\n#endif\nextern BB_EXPORT const bb_library bb_backend_library;\n\n";
    text += HOST;
    text
}
