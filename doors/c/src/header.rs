//! Generates the text of `include/bb.h`.

use crate::abi::{self, ParameterKind, status};
use bb_ir::DataType;

/// Returns the declaration of a list type.
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
    all += &enumeration(STATUSES, statuses);
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
 * bb.h: backends of bb in C, and bb in programs in C. The page bb/docs/c.md explains both, and doors/c/examples has a backend and a program.
 *
 * A backend is a library that exports one constant, `bb_backend_library`. A program that runs models calls the functions at the end, and
 * links the library `bb_host`.
 *
 * Status     A function that may fail returns `BB_OK` or another status. If it fails, it writes the reason to its `bb_error`, if it has
 *            one. A pointer to a session or a run is null then, and the other results are not valid.
 * Texts      A `bb_text` is UTF-8 with a number of bytes, and no zero ends it: print it with `%.*s`. A zero ends each `const char *`.
 * Arguments  Lists, texts, tensors and structures are lent for the call. A function that needs them later copies them. A list without
 *            items may be null.
 * Units      Lengths, sizes and capacities are numbers of bytes. Extents, and counts of lists, are numbers of elements.
 * Threads    Functions may be called from any thread, and from several at once.
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

const TEXTS: &str = "\n\
/*
 * The `bb_text` of a string literal: `BB_TEXT(\"threads\")`. Outside of functions an initializer is `BB_TEXT_INIT(\"threads\")`, because not every
 * compiler takes the other form there.
 */
#define BB_TEXT_INIT(literal) {\"\" literal, sizeof(literal) - 1}
#ifdef __cplusplus
#define BB_TEXT(literal) (bb_text BB_TEXT_INIT(literal))
#else
#define BB_TEXT(literal) ((bb_text)BB_TEXT_INIT(literal))
#endif
";

const STATUSES: &str = "\
What functions return.
 *
 * BB_INVALID_MODEL  The model is damaged, or contradicts itself.
 * BB_WRONG_INPUT    An argument, an input or an element does not fit.
 * BB_CONFIGURATION  A file, a backend, a device or an option does not exist, or does not fit the others.
 * BB_UNSUPPORTED    The backend cannot do this; another one may.
 * BB_LIMIT          A limit was exceeded, or there is no memory.
 * BB_CANCELLED      The run was cancelled, or its time is over.
 * BB_DEVICE         The backend or its device failed. A number that is not in this list counts as this one,
 *                   and breaks a promise of the interface.
 * BB_INTERNAL       A mistake in bb.
 * BB_PANICKED       The code panicked, and the panic was stopped.";

const HOST: &str = "\
/*
 * Programs that run models.
 *
 * A program opens a session, queries its inputs, runs it, reads the outputs of the run, and then frees the run and closes the session. A run
 * stays valid after its session is closed. `error` may be null. Functions that free or close accept null.
 */
typedef struct bb_session bb_session;
typedef struct bb_run bb_run;
typedef struct bb_cancel bb_cancel;

/* A rank, or an extent, that is known only when the model runs. */
#define BB_UNKNOWN_RANK SIZE_MAX
#define BB_UNKNOWN_EXTENT SIZE_MAX

/* An input or output of a session, or a value between its nodes. The texts and extents live as long as the session. */
typedef struct bb_port {
    bb_text name;
    /* The element type, such as `BB_F32`. 0 if it is not known, or if the port is no tensor; then the rank is unknown, too. */
    int32_t dtype;
    /* The number of extents: 0 for a scalar, and `BB_UNKNOWN_RANK` if the model does not fix it. */
    size_t rank;
    /* The extents, outermost first; `BB_UNKNOWN_EXTENT` for one that the model does not fix. Null if the rank is unknown. */
    const size_t *shape;
} bb_port;

/* An input of a run. The call copies the elements, so that the memory may change after it. They need not be aligned. */
typedef struct bb_input {
    /* The name of an input of the session. */
    bb_text name;
    /* The tensor, with the extents that it has in this run. */
    bb_data data;
} bb_input;

/* The metadata of a model. The texts live as long as the session. They are empty if the model has none, or is a compiled one. */
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

/* Options of a run. If all fields except `size` are zero, the run has no options. */
typedef struct bb_run_options {
    /* The size of this structure, which the caller writes. */
    size_t size;
    /* The run ends with `BB_CANCELLED` after this time, in milliseconds. 0 is no limit. */
    uint64_t timeout_ms;
    /* Ends the run with `BB_CANCELLED`, once it is cancelled; may be null. */
    const bb_cancel *cancel;
    /*
     * The names of the values that the run returns, in this order: outputs, and values between nodes. If there are none, the run returns
     * all outputs. The session compiles the model again for a list of names that it has not seen.
     */
    bb_texts values;
} bb_run_options;

/* Returns `BB_VERSION` of the library. */
uint32_t bb_version(void);

/*
 * Loads the library of a backend. All sessions of the process that are opened later find the backend by its name. Loading a file again
 * changes nothing; another file with a backend of the same name is `BB_CONFIGURATION`. The variable `BB_BACKEND_PATH` names libraries that
 * the first session loads.
 */
int32_t bb_load_backend(const char *path, bb_error *error);

/*
 * Opens a model on a backend: a file, or bytes in memory, which are copied. A model in memory cannot have its data in other files. The
 * backend is the name of one, such as `cpu`, or an expression: `first_of(mine, cpu)`, `metrics+mine`.
 *
 * `options` are names with values, all of them texts: `bb_named one = {BB_TEXT(\"threads\"), BB_TEXT(\"4\")};` and `(bb_named_list){&one, 1}`.
 * `(bb_named_list){0}` is none. An unknown name is `BB_CONFIGURATION`. If nodes of the model do not run on the backend, the status is
 * `BB_UNSUPPORTED`, and the error lists the nodes: give it some KiB.
 *
 *   device          the name of a device of the backend; the command `bb backends` lists them
 *   threads         the number of threads
 *   memory          the greatest number of bytes that the backend uses, such as `1073741824` or `1G`; K, M, G and T are powers of 1024
 *   narrow_floats   `true` lets a backend without a float type round its elements to a type that it has
 *   limits.NAME     a limit on models that you do not trust, such as `limits.model_bytes`; bb/docs/limits.md has all names
 *   another name    an option that the backend defines; `bb backends` lists them
 *
 * A backend refuses options that it does not have. `cpu` has `threads` and `memory`, among others.
 */
int32_t bb_session_open(const char *path, const char *backend, bb_named_list options, bb_session **session, bb_error *error);
int32_t bb_session_open_bytes(bb_text model, const char *backend, bb_named_list options, bb_session **session, bb_error *error);
/* Closes a session, which no call uses any more. */
void bb_session_close(bb_session *session);

size_t bb_session_input_count(const bb_session *session);
size_t bb_session_output_count(const bb_session *session);
/*
 * Returns the number of values between nodes: the results of nodes that are no outputs of the model, in the order of the nodes. A run returns
 * those that its `bb_run_options` names.
 */
size_t bb_session_value_count(const bb_session *session);
/*
 * Writes the port at a position, from 0 on. There is no `bb_error`, because `BB_WRONG_INPUT` is the only error: the count above is not
 * greater than the position, or an argument is null.
 */
int32_t bb_session_input(const bb_session *session, size_t position, bb_port *port);
int32_t bb_session_output(const bb_session *session, size_t position, bb_port *port);
int32_t bb_session_value(const bb_session *session, size_t position, bb_port *port);

/* Writes the metadata of the model: set `size` to `sizeof(bb_model)` before. The only error is `BB_WRONG_INPUT`: `size` is not set, or an argument is null. */
int32_t bb_session_model(const bb_session *session, bb_model *model);

/* Makes a token that ends runs. One token may be in the options of several runs. */
bb_cancel *bb_cancel_new(void);
/* Cancels all runs with this token, from any thread, and for ever: runs that begin later end at once. */
void bb_cancel_runs(const bb_cancel *cancel);
/* Frees the token, after all runs with it have ended. */
void bb_cancel_free(bb_cancel *cancel);

/*
 * Runs the model, and returns once it has run. Inputs are in any order; an input that has a default value in the model may be left out. The
 * outputs are in the order of the session, and live until `bb_run_free`.
 *
 * Inputs and outputs are tensors. A model with a sequence or a map as input or output is `BB_WRONG_INPUT`; other values of such a model can be
 * named in `bb_run_options`.
 */
int32_t bb_session_run(const bb_session *session, const bb_input *inputs, size_t count, bb_run **run, bb_error *error);
/* Runs the model with options, which may be null. If the options name values, the outputs are in the order of the names. */
int32_t bb_session_run_with(const bb_session *session, const bb_input *inputs, size_t count, const bb_run_options *options, bb_run **run, bb_error *error);
size_t bb_run_output_count(const bb_run *run);
/*
 * Writes the output at a position, from 0 on. `BB_WRONG_INPUT`: `bb_run_output_count` is not greater than the position, or an argument is
 * null. The output's memory belongs to the run: do not free it.
 */
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
    text += "\n/* Lists. Those of arguments are lent for the call. A `bb_text` is UTF-8, its count is in bytes, and no zero ends it. */\n";
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
    text += TEXTS;
    text += "\n/* A function of the host that receives a device. Call it with the `context` that came with it. */\ntypedef void (*bb_device)(void *context, bb_text name, bb_text description);\n";
    text += "/*\n * A function of the host that receives the end of a run: `BB_OK` and the results, which belong to the host from then on, or another status\n\
             \x20* and the reason. Call it once, with the `context` that came with it.\n */\n\
             typedef void (*bb_done)(void *context, int32_t status, bb_text text, const bb_result *results, size_t count);\n\n";
    for layout in abi::layouts() {
        text += &(layout.text)();
        text += "\n";
    }
    text += "/* The constant that the library of a backend defines. */\n#if defined(_WIN32)\n#define BB_EXPORT __declspec(dllexport)\n#else\n\
             #define BB_EXPORT __attribute__((visibility(\"default\")))\n#endif\nextern BB_EXPORT const bb_library bb_backend_library;\n\n";
    text += HOST;
    text
}
