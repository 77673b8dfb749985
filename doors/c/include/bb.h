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
extern "C" {
#endif

#define BB_VERSION 1u
#define BB_MAGIC 0x000062696c5f6262ull
#define BB_UNLOADS 1u
/* The primitives of this header, by a hash of their rows. */
#define BB_PRIMITIVES 0x889c66fa6802afa7ull

/* What functions return.
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
 * BB_PANICKED       The code panicked, and the panic was stopped. */
enum {
    BB_OK = 0,
    BB_INVALID_MODEL = 1,
    BB_WRONG_INPUT = 2,
    BB_CONFIGURATION = 3,
    BB_UNSUPPORTED = 4,
    BB_LIMIT = 5,
    BB_CANCELLED = 6,
    BB_DEVICE = 7,
    BB_INTERNAL = 8,
    BB_PANICKED = 100
};

/* Element types, by ONNX's numbers. */
enum {
    BB_F32 = 1,
    BB_U8 = 2,
    BB_I8 = 3,
    BB_U16 = 4,
    BB_I16 = 5,
    BB_I32 = 6,
    BB_I64 = 7,
    BB_STRING = 8,
    BB_BOOL = 9,
    BB_F16 = 10,
    BB_F64 = 11,
    BB_U32 = 12,
    BB_U64 = 13,
    BB_C64 = 14,
    BB_C128 = 15,
    BB_BF16 = 16,
    BB_F8E4M3FN = 17,
    BB_F8E4M3FNUZ = 18,
    BB_F8E5M2 = 19,
    BB_F8E5M2FNUZ = 20,
    BB_U4 = 21,
    BB_I4 = 22,
    BB_F4E2M1 = 23,
    BB_F8E8M0 = 24,
    BB_U2 = 25,
    BB_I2 = 26,
    BB_F6E2M3 = 27,
    BB_F6E3M2 = 28
};

/* The kinds of bb_parameter. */
enum {
    BB_PARAMETER_NOTHING = 0,
    BB_PARAMETER_INTEGER = 1,
    BB_PARAMETER_NUMBER = 2,
    BB_PARAMETER_INTEGERS = 3,
    BB_PARAMETER_NUMBERS = 4,
    BB_PARAMETER_EXTENTS = 5,
    BB_PARAMETER_TEXT = 6,
    BB_PARAMETER_DATA = 7
};

/* How `cast` rounds to f8e8m0. */
enum {
    BB_UP = 0,
    BB_DOWN = 1,
    BB_NEAREST = 2
};

typedef struct bb_backend bb_backend;
typedef struct bb_tensor bb_tensor;
typedef struct bb_named bb_named;
typedef struct bb_data bb_data;
typedef struct bb_result bb_result;
typedef struct bb_error bb_error;
typedef struct bb_parameter bb_parameter;
typedef struct bb_memory bb_memory;
typedef struct bb_primitives bb_primitives;
typedef struct bb_option bb_option;
typedef struct bb_description bb_description;
typedef struct bb_library bb_library;

/* Lists. Those of arguments are lent for the call. A `bb_text` is UTF-8, its count is in bytes, and no zero ends it. */
typedef struct bb_text {
    const char *items;
    size_t count;
} bb_text;
typedef struct bb_ints {
    const int64_t *items;
    size_t count;
} bb_ints;
typedef struct bb_extents {
    const size_t *items;
    size_t count;
} bb_extents;
typedef struct bb_tensors {
    const bb_tensor *const *items;
    size_t count;
} bb_tensors;
typedef struct bb_texts {
    const bb_text *items;
    size_t count;
} bb_texts;
typedef struct bb_named_list {
    const bb_named *items;
    size_t count;
} bb_named_list;
typedef struct bb_options {
    const bb_option *items;
    size_t count;
} bb_options;
typedef struct bb_parameters {
    const bb_parameter *items;
    size_t count;
} bb_parameters;

/*
 * The `bb_text` of a string literal: `BB_TEXT("threads")`. Outside of functions an initializer is `BB_TEXT_INIT("threads")`, because not every
 * compiler takes the other form there.
 */
#define BB_TEXT_INIT(literal) {"" literal, sizeof(literal) - 1}
#ifdef __cplusplus
#define BB_TEXT(literal) (bb_text BB_TEXT_INIT(literal))
#else
#define BB_TEXT(literal) ((bb_text)BB_TEXT_INIT(literal))
#endif

/* A function of the host that receives a device. Call it with the `context` that came with it. */
typedef void (*bb_device)(void *context, bb_text name, bb_text description);
/*
 * A function of the host that receives the end of a run: `BB_OK` and the results, which belong to the host from then on, or another status
 * and the reason. Call it once, with the `context` that came with it.
 */
typedef void (*bb_done)(void *context, int32_t status, bb_text text, const bb_result *results, size_t count);

/* Two texts: an option and its value. */
struct bb_named {
    /* The name. */
    bb_text name;

    /* The value. */
    bb_text value;
};

/*
 * A tensor in host memory: row-major, little-endian, without gaps; types of less than a byte are packed, the first element lowest.
 * Truth values are one byte, 0 or 1. Strings are `n + 1` offsets of 64 bits, and then the UTF-8 bytes that they divide: string `i` has the
 * bytes from offset `i` to before offset `i + 1`, and the first byte after the offsets has the offset 0.
 */
struct bb_data {
    /* ONNX's number of the element type. */
    int32_t dtype;

    /* The number of extents. */
    size_t rank;

    /* The extents, outermost first. */
    const size_t *shape;

    /* The elements, aligned for their type. */
    const uint8_t *bytes;

    /* The number of bytes. */
    size_t length;
};

/*
 * A place for a result. Before a primitive is called, the host writes which type and shape the result has by ONNX's rules, so that a
 * backend need not work it out; a backend that writes something else there has failed. Elsewhere the backend writes all fields.
 */
struct bb_result {
    /*
     * The result, null before the call. The host releases each tensor that is here after the call, once. So a function that fails leaves
     * null here: if it has freed a tensor itself, it sets this to null again.
     */
    bb_tensor *tensor;

    /* ONNX's number of the element type. */
    int32_t dtype;

    /* The number of extents. */
    size_t rank;

    /* The extents. Those that a backend writes must stay until the tensor is released. */
    const size_t *shape;
};

/*
 * A place for the text of an error. A function that returns another status than `BB_OK` writes the reason, cut to `capacity`. A text
 * that bb cuts ends with `…`. If the function returns `BB_OK`, it writes nothing here. The host gives functions of a backend at least
 * 1024 bytes.
 */
struct bb_error {
    /* The size of this structure. */
    size_t size;

    /* The memory for the text, which belongs to the caller. */
    char *text;

    /* The number of bytes that `text` holds. */
    size_t capacity;

    /* The number of bytes that the function wrote: UTF-8, without a zero. */
    size_t length;
};

/*
 * A parameter of a native operation. All parameters of the method come, in its order, as bb/docs/c.md describes: for `softmax` one
 * `INTEGER`, the axis. The kind says which fields are valid. Lists are lent for the call.
 */
struct bb_parameter {
    /* One of `BB_PARAMETER_NOTHING` and so on. `NOTHING` is an optional parameter that is not given. */
    int32_t kind;

    /* The value of `INTEGER`: an integer, an axis, a truth value (0 or 1), or ONNX's number of an element type. */
    int64_t integer;

    /* The value of `NUMBER`. */
    double number;

    /*
     * The items of `INTEGERS` (`int64_t`), `NUMBERS` (`double`), `EXTENTS` (`size_t`) and `TEXT` (`char`), or the `bb_data` of
     * `DATA`.
     */
    const void *items;

    /* The number of items; 1 for `DATA`. */
    size_t count;
};

/* How much memory a backend uses, in bytes. `UINT64_MAX` is a number that is not known, or no limit. */
struct bb_memory {
    /* The size of this structure. */
    size_t size;

    /* The bytes of buffers that tensors use. */
    uint64_t live;

    /* The bytes of buffers that are kept for later tensors. */
    uint64_t pooled;

    /* The greatest value that `live + pooled` had. */
    uint64_t peak;

    /* The greatest allowed value of `live + pooled`. */
    uint64_t limit;

    /* The bytes that the device still has. */
    uint64_t available;
};

/*
 * The primitives. Each computes its documented result, as ONNX does. The host has checked the operands and parameters: types and
 * shapes fit. The function makes `count` tensors, of the types and shapes that `results` states, and puts them there. Axes may be
 * negative, and then count from the end. Operands are lent for the call: the host may release one after it, so a result that uses
 * memory of an operand must keep this memory. All functions but `constant` may be null: the backend then does not run this
 * primitive, and other backends get its nodes. A function that lacks only some element types returns `BB_UNSUPPORTED` for them.
 */
struct bb_primitives {
    /* The size of this structure. */
    size_t size;

    /*
     * Adds element by element.
     *
     * Shapes: NumPy broadcasting. Integers wrap on overflow.
     *
     * Source: ONNX `Add`, opset 14.
     */
    int32_t (*add)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Subtracts element by element.
     *
     * Shapes: NumPy broadcasting. Integers wrap on overflow.
     *
     * Source: ONNX `Sub`, opset 14.
     */
    int32_t (*sub)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Multiplies element by element.
     *
     * Shapes: NumPy broadcasting. Integers wrap on overflow.
     *
     * Source: ONNX `Mul`, opset 14.
     */
    int32_t (*mul)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Divides element by element; integer quotients are truncated towards zero.
     *
     * Shapes: NumPy broadcasting. The least integer divided by -1 wraps to itself.
     *
     * Errors: an integer divided by zero.
     *
     * Source: ONNX `Div`, opset 14.
     */
    int32_t (*div)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Negates each element; the least integer stays unchanged.
     *
     * Shapes: any, kept. Types: signed integers and floats.
     *
     * Source: ONNX `Neg`, opset 13.
     */
    int32_t (*neg)(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error);

    /*
     * Takes the absolute value of each element; the least integer stays unchanged.
     *
     * Shapes: any, kept. Types: all numbers.
     *
     * Source: ONNX `Abs`, opset 13.
     */
    int32_t (*abs)(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error);

    /*
     * Takes the square root of each element; the root of a negative number is NaN.
     *
     * Shapes: any, kept. Types: floats.
     *
     * Source: ONNX `Sqrt`, opset 13.
     */
    int32_t (*sqrt)(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error);

    /*
     * Raises each element of `a` to the power in `b`; the result has the type of `a`.
     *
     * Shapes: NumPy broadcasting. Types: `a` and `b` may differ. Integers wrap on overflow; an integer
     * to a negative power is the truncated quotient (0, or ±1 for a base of ±1).
     *
     * Errors: the integer 0 to a negative power is a division by zero.
     *
     * Source: ONNX `Pow`, opset 15.
     */
    int32_t (*pow)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Takes the exponential of each element.
     *
     * Shapes: any, kept. Types: floats.
     *
     * Source: ONNX `Exp`, opset 13.
     */
    int32_t (*exp)(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error);

    /*
     * Takes the natural logarithm of each element; the logarithm of a negative number is NaN.
     *
     * Shapes: any, kept. Types: floats.
     *
     * Source: ONNX `Log`, opset 13.
     */
    int32_t (*log)(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error);

    /*
     * Multiplies matrices, batched over the leading dimensions.
     *
     * Shapes: `a: [.., m, k]`, `b: [.., k, n]` to `[.., m, n]`; the leading extents broadcast. An
     * operand of rank 1 is treated as a row (`a`) or a column (`b`), whose extent of 1 is removed from
     * the result. If `k` is 0, the result is 0. Integers wrap on overflow.
     *
     * Source: ONNX `MatMul`, opset 13.
     */
    int32_t (*matmul)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Sums over `axes`, or over every axis when `axes` is empty.
     *
     * Shapes: `x: [d0, …, dn]` to the same rank with each reduced extent 1; if `keepdims` is false, to
     * the shape without the reduced axes. An empty sum is 0. Integers wrap on overflow.
     *
     * Source: ONNX `ReduceSum`, opset 13.
     */
    int32_t (*reduce_sum)(bb_backend *backend, const bb_tensor *x, bb_ints axes, bool keepdims, bb_result *results, size_t count, bb_error *error);

    /*
     * Averages over `axes`, or over every axis when `axes` is empty.
     *
     * Shapes: as `reduce_sum`. An integer mean is truncated. An empty mean is NaN
     * for floats and an error for integers.
     *
     * Source: ONNX `ReduceMean`, opset 18.
     */
    int32_t (*reduce_mean)(bb_backend *backend, const bb_tensor *x, bb_ints axes, bool keepdims, bb_result *results, size_t count, bb_error *error);

    /*
     * Takes the maximum over `axes`, or over every axis when `axes` is empty; a NaN makes the result
     * NaN.
     *
     * Shapes: as `reduce_sum`. An empty maximum is the least value of the type
     * (minus infinity, false).
     *
     * Source: ONNX `ReduceMax`, opset 20.
     */
    int32_t (*reduce_max)(bb_backend *backend, const bb_tensor *x, bb_ints axes, bool keepdims, bb_result *results, size_t count, bb_error *error);

    /*
     * Takes the minimum over `axes`, or over every axis when `axes` is empty; a NaN makes the result
     * NaN.
     *
     * Shapes: as `reduce_sum`. An empty minimum is the greatest value of the type
     * (infinity, true).
     *
     * Source: ONNX `ReduceMin`, opset 20.
     */
    int32_t (*reduce_min)(bb_backend *backend, const bb_tensor *x, bb_ints axes, bool keepdims, bb_result *results, size_t count, bb_error *error);

    /*
     * Changes the shape; the elements keep their row-major order.
     *
     * Shapes: the result has the shape `shape`, where 0 means 0; the number of elements must not
     * change. Types: all, including storage types.
     *
     * Source: ONNX `Reshape`, opset 25.
     */
    int32_t (*reshape)(bb_backend *backend, const bb_tensor *x, bb_extents shape, bb_result *results, size_t count, bb_error *error);

    /*
     * Permutes the dimensions; dimension `i` of the result is dimension `perm[i]` of `x`.
     *
     * Shapes: an empty `perm` reverses the dimensions. Types: all, including storage types.
     *
     * Source: ONNX `Transpose`, opset 25.
     */
    int32_t (*transpose)(bb_backend *backend, const bb_tensor *x, bb_ints perm, bb_result *results, size_t count, bb_error *error);

    /*
     * Joins tensors along `axis`.
     *
     * Shapes: the operands only differ in the extent of `axis`, and the result has the sum of these
     * extents. There must be at least one operand. Types: all, including storage types; the same for
     * every operand.
     *
     * Source: ONNX `Concat`, opset 13.
     */
    int32_t (*concat)(bb_backend *backend, bb_tensors xs, int64_t axis, bb_result *results, size_t count, bb_error *error);

    /*
     * Takes every `steps[i]`-th element from `starts[i]` to before `ends[i]` along `axes[i]`.
     *
     * Shapes: empty `axes` mean the first dimensions, one for each start, and empty `steps` mean 1. Negative
     * starts and ends count from the end; both are clamped to the extent. A negative step goes
     * backwards. Types: all, including storage types.
     *
     * Errors: a step of 0, a repeated axis.
     *
     * Source: ONNX `Slice`, opset 13.
     */
    int32_t (*slice)(bb_backend *backend, const bb_tensor *x, bb_ints starts, bb_ints ends, bb_ints axes, bb_ints steps, bb_result *results, size_t count, bb_error *error);

    /*
     * Splits a tensor along `axis` into parts with the extents `sizes`, in order.
     *
     * Shapes: the sum of `sizes` is the extent of `axis`. Types: all, including storage types.
     *
     * Source: ONNX `Split`, opset 18.
     */
    int32_t (*split)(bb_backend *backend, const bb_tensor *x, int64_t axis, bb_extents sizes, bb_result *results, size_t count, bb_error *error);

    /*
     * Removes the dimensions `axes`, or every dimension of extent 1 when `axes` is empty.
     *
     * Shapes: the extents of `axes` must be 1. Types: all, including storage types.
     *
     * Source: ONNX `Squeeze`, opset 25.
     */
    int32_t (*squeeze)(bb_backend *backend, const bb_tensor *x, bb_ints axes, bb_result *results, size_t count, bb_error *error);

    /*
     * Inserts dimensions of extent 1, which become the dimensions `axes` of the result.
     *
     * Shapes: `axes` count in the rank of the result and must differ. Types: all, including storage
     * types.
     *
     * Source: ONNX `Unsqueeze`, opset 25.
     */
    int32_t (*unsqueeze)(bb_backend *backend, const bb_tensor *x, bb_ints axes, bb_result *results, size_t count, bb_error *error);

    /*
     * Returns the tensor itself. Types: all, including storage types.
     *
     * Source: ONNX `Identity`, opset 25.
     */
    int32_t (*identity)(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error);

    /*
     * Converts each element to the type `to`.
     *
     * Shapes: any, kept. Types: from every type to every type. Floats become integers by truncation;
     * floats that are out of range are converted as NumPy does. Integers wrap. Every value except zero
     * becomes true. Values out of the range of an 8-bit float become the greatest finite value if
     * `saturate` is true, else NaN or infinity. `round_mode` only applies to `f8e8m0`. Strings are
     * parsed and printed as NumPy does.
     *
     * Source: ONNX `Cast`, opset 25.
     */
    int32_t (*cast)(bb_backend *backend, const bb_tensor *x, int32_t to, bool saturate, int32_t round_mode, bb_result *results, size_t count, bb_error *error);

    /*
     * Compares for equality; NaN equals nothing. The result is bool.
     *
     * Shapes: NumPy broadcasting. Types: the compute types and strings.
     *
     * Source: ONNX `Equal`, opset 19.
     */
    int32_t (*equal)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Returns true where `a > b`. The result is bool.
     *
     * Shapes: NumPy broadcasting. Types: all numbers.
     *
     * Source: ONNX `Greater`, opset 13.
     */
    int32_t (*greater)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Returns true where `a < b`. The result is bool.
     *
     * Shapes: NumPy broadcasting. Types: all numbers.
     *
     * Source: ONNX `Less`, opset 13.
     */
    int32_t (*less)(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count, bb_error *error);

    /*
     * Takes `x` where `condition` is true and `y` elsewhere.
     *
     * Shapes: NumPy broadcasting of all three. Types: `condition` is bool; `x` and `y` have the same
     * type, including storage types.
     *
     * Source: ONNX `Where`, opset 16.
     */
    int32_t (*where)(bb_backend *backend, const bb_tensor *condition, const bb_tensor *x, const bb_tensor *y, bb_result *results, size_t count, bb_error *error);

    /*
     * Makes a tensor of this backend from a host tensor. Types: all, including storage types.
     *
     * Source: ONNX `Constant`, opset 25.
     */
    int32_t (*constant)(bb_backend *backend, const bb_data *value, bb_result *results, size_t count, bb_error *error);

    /*
     * Selects entries of `data` along `axis` by `indices`.
     *
     * Shapes: in the shape of `data`, the shape of `indices` replaces the dimension `axis`. Types:
     * `data` all, including storage types; `indices` `i32` or `i64`. Negative indices count from the
     * end.
     *
     * Errors: an index out of range.
     *
     * Source: ONNX `Gather`, opset 13.
     */
    int32_t (*gather)(bb_backend *backend, const bb_tensor *data, const bb_tensor *indices, int64_t axis, bb_result *results, size_t count, bb_error *error);
};

/* An option that a backend takes. */
struct bb_option {
    /* The name: letters, digits and `_`. */
    bb_text name;

    /*
     * The name again for `device`, `threads` and `memory`, which bb defines. For another option its type: `bool`,
     * `i64`, `u64`, `f64` or `str`.
     */
    bb_text kind;

    /* The default of an option with a type, as a text of this type. `open` gets it if the user sets none. */
    bb_text initial;

    /* The purpose, in one line. */
    bb_text about;
};

/* The library's description of its backend. All texts and lists live as long as the library is loaded, so they are static. */
struct bb_description {
    /* The size of this structure. The host writes how much it knows, the backend how much it has written. */
    size_t size;

    /* The name under which users open the backend: letters, digits, `-` and `_`. */
    bb_text name;

    /* The version of the backend: a text like `1.0.0`, which is not empty. */
    bb_text version;

    /* An identifier that distinguishes backends of one name, such as the path of a type. */
    bb_text path;

    /*
     * The element types: bit `n` is ONNX's type `n`, so that `BB_F32` is `1 << BB_F32`. `BB_F32`, `BB_BOOL`, and `BB_I32` or `BB_I64` must
     * be among them. 0 if they are known once the backend is open: then the library has `types`.
     */
    uint64_t types;

    /* A number that changes when results may change. Plans that were saved with another number are made again. */
    uint64_t fingerprint;

    /* The options that `open` takes. */
    bb_options options;

    /* The native operations by the names of their methods, e.g. `softmax`, for `native`. */
    bb_texts natives;
};

/*
 * A backend as a library. The library exports one constant of this type, with the name `bb_backend_library`. It is read before anything
 * is called. Functions may be called from several threads at once. One that is null is not offered; so is one beyond `size`.
 */
struct bb_library {
    /* The size of this structure. */
    size_t size;

    /* `BB_MAGIC`. */
    uint64_t magic;

    /* `BB_VERSION`. */
    uint32_t version;

    /* `BB_UNLOADS`, or 0. */
    uint32_t flags;

    /* `BB_PRIMITIVES`: which primitives the library was compiled with. */
    uint64_t fingerprint;

    /*
     * The primitives. `constant` is needed; one that is null does not run on the backend, unless it takes whole graphs: see
     * `runs_primitive`.
     */
    const bb_primitives *primitives;

    /*
     * Describes the backend. `description->size` is the number of bytes that the host has for it: write at most this number, and set
     * `size` to the number that was written. The other fields are zero or empty before.
     */
    int32_t (*describe)(bb_description *description, bb_error *error);

    /*
     * Opens a backend with options that `describe` lists, as names and values. `threads` and `memory` are decimal numbers, `memory` in
     * bytes; one that the user does not set is not in the list. May be called several times: each call opens another backend.
     */
    int32_t (*open)(bb_named_list options, bb_backend **backend, bb_error *error);

    /* Closes a backend. The host has released its tensors and programs, and no call uses it any more. */
    void (*close)(bb_backend *backend);

    /*
     * Copies a tensor to `bytes`, in the form of `bb_data`, and writes to `length` how many bytes it has. If `capacity` is less,
     * copies nothing and returns `BB_OK`, too. The host calls first with a capacity of 0 to get the length of strings; `bytes` may then be
     * null.
     */
    int32_t (*to_host)(bb_backend *backend, const bb_tensor *x, uint8_t *bytes, size_t capacity, size_t *length, bb_error *error);

    /* Releases a tensor. The host calls this once for each tensor that it got in a `bb_result`. */
    void (*release)(bb_backend *backend, bb_tensor *x);

    /* Optional: returns the element types of an open backend, as in `bb_description`. */
    uint64_t (*types)(bb_backend *backend);

    /* Optional: calls `device` with each device. */
    int32_t (*devices)(bb_device device, void *context, bb_error *error);

    /*
     * Optional: returns whether an open backend takes whole graphs; 0 is no. Without it, a backend that has `compile` and lacks a primitive
     * does.
     */
    uint8_t (*whole_graphs)(bb_backend *backend);

    /*
     * Optional, and then `run` and `release_program` too: compiles a whole graph, in the form of an ONNX file. Its nodes are the operators
     * that the primitives name as their source. Each node has a name, for example `MatMul_3`, which an error can quote; only the single node of
     * an operation outside of a session's graph has none. Extents of inputs may be missing: `run` gets tensors that have them. The section
     * "Whole graphs" of bb/docs/writing-a-backend.md describes these graphs.
     */
    int32_t (*compile)(bb_backend *backend, bb_text model, void **program, bb_error *error);

    /*
     * Optional: runs a graph. Inputs and results are in the order of the graph; initializers that are also inputs are not given. `results`
     * has `count` empty places: write all fields of each.
     */
    int32_t (*run)(bb_backend *backend, void *program, bb_tensors inputs, bb_result *results, size_t count, bb_error *error);

    /* Optional: releases a graph. */
    void (*release_program)(bb_backend *backend, void *program);

    /*
     * Optional: begins to run a graph, and returns. Later call `done` once, from any thread, with `context` and the results; the inputs
     * and the program stay until then. If this returns another status than `BB_OK`, do not call `done`.
     */
    int32_t (*start)(bb_backend *backend, void *program, bb_tensors inputs, bb_done done, void *context, bb_error *error);

    /*
     * Optional: computes an operation that `describe` lists. An operand that is not given is null. `count` is the number of places for
     * results, and is set to the number of results. Write all fields of each. `BB_UNSUPPORTED` declines the call: the host then computes the
     * operation by its primitives.
     */
    int32_t (*native)(bb_backend *backend, bb_text name, bb_tensors inputs, bb_parameters parameters, bb_result *results, size_t *count, bb_error *error);

    /* Optional: writes how much memory the backend uses. `memory->size` is set; do not write beyond it. */
    void (*memory)(bb_backend *backend, bb_memory *memory);

    /* Optional: waits until the device has done all submitted work. */
    int32_t (*synchronize)(bb_backend *backend, bb_error *error);

    /*
     * Optional: returns whether an open backend runs a primitive, by the name of its function in `bb_primitives`, e.g. `exp`; 0 is no. The
     * host asks once for each primitive when it has opened the backend. Without it, a backend runs the primitives that are not null, and
     * one that takes whole graphs runs all.
     */
    uint8_t (*runs_primitive)(bb_backend *backend, bb_text name);
};

/* The constant that the library of a backend defines. */
#if defined(_WIN32)
#define BB_EXPORT __declspec(dllexport)
#else
#define BB_EXPORT __attribute__((visibility("default")))
#endif
extern BB_EXPORT const bb_library bb_backend_library;

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
 * `options` are names with values, all of them texts: `bb_named one = {BB_TEXT("threads"), BB_TEXT("4")};` and `(bb_named_list){&one, 1}`.
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
