/*
 * A whole backend in C: the thirty primitives as plain loops, for the numbers that C has, and truth values.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I doors/c/include doors/c/examples/plain.c -o libplain.so -lm
 *     BB_BACKEND_PATH=$PWD/libplain.so cargo run --release -p bb-cli --features loaded -- run MODEL.onnx --random 1 --backend plain
 *
 * The host has checked types and shapes by ONNX's rules before it calls, and says which type and shape each result has. So a function
 * makes its result, and fills it. What is left to refuse are elements: an index out of range, an integer divided by zero.
 *
 * An operation on elements is written once, for all types that C calls numbers, by the lists of types below.
 */
#include "bb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The element types, each with its type in C. */
#define FLOATS(X) X(F32, float) X(F64, double)
#define SIGNED(X) X(I8, int8_t) X(I16, int16_t) X(I32, int32_t) X(I64, int64_t)
#define UNSIGNED(X) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t)
#define NUMBERS(X) FLOATS(X) SIGNED(X) UNSIGNED(X)
#define ALL(X) NUMBERS(X) X(BOOL, bool)

#define BIT(name, type) | (1ull << BB_##name)
static const uint64_t TYPES = 0 ALL(BIT);

/* A tensor: type, extents, and elements in row-major order without gaps. */
struct bb_tensor {
    int32_t dtype;
    size_t rank, count;
    size_t *shape;
    unsigned char *data;
};

/* The backend has no state; the interface wants something to point to. */
struct bb_backend {
    char unused;
};

static int32_t fail(bb_error *error, int32_t status, const char *text) {
    if (error && error->text) {
        int length = snprintf(error->text, error->capacity, "%s", text);
        /* A text that does not fit is cut, and ends with a zero that does not count. */
        error->length = length < 0 || error->capacity == 0 ? 0
                        : (size_t)length < error->capacity ? (size_t)length
                                                           : error->capacity - 1;
    }
    return status;
}

static size_t width(int32_t dtype) {
    switch (dtype) {
#define WIDTH(name, type) case BB_##name: return sizeof(type);
        ALL(WIDTH)
    }
    return 0;
}

static size_t count_of(const size_t *shape, size_t rank) {
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) count *= shape[i];
    return count;
}

/* Makes the tensor that a place for a result asks for; null if there is no memory. */
static bb_tensor *make(bb_result *result, bb_error *error) {
    size_t count = count_of(result->shape, result->rank);
    bb_tensor *x = malloc(sizeof *x);
    size_t *shape = malloc((result->rank + 1) * sizeof *shape);
    unsigned char *data = malloc(count * width(result->dtype) + 1);
    if (!x || !shape || !data) {
        free(x), free(shape), free(data);
        fail(error, BB_LIMIT, "there is no memory for the result");
        return NULL;
    }
    if (result->rank) memcpy(shape, result->shape, result->rank * sizeof *shape);
    *x = (bb_tensor){result->dtype, result->rank, count, shape, data};
    return result->tensor = x;
}

static void release(bb_backend *backend, bb_tensor *x) {
    (void)backend;
    free(x->shape), free(x->data), free(x);
}

/* Gives up a result that could not be computed. */
static int32_t give_up(bb_result *result, bb_error *error, int32_t status, const char *text) {
    release(NULL, result->tensor);
    result->tensor = NULL;
    return fail(error, status, text);
}

#define MAKE(x)                              \
    bb_tensor *x = make(results, error);     \
    if (!x) return BB_LIMIT;                 \
    (void)backend, (void)count

/* Where operand `x` has the element that belongs to element `i` of a tensor of another shape, to which it is broadcast. */
static size_t broadcast(const bb_tensor *x, const bb_tensor *to, size_t i) {
    if (x->count == to->count) return i;
    size_t at = 0, step = 1;
    for (size_t d = 0; d < to->rank; d++) {
        size_t index = i % to->shape[to->rank - 1 - d];
        i /= to->shape[to->rank - 1 - d];
        if (d >= x->rank) continue;
        size_t extent = x->shape[x->rank - 1 - d];
        if (extent != 1) at += index * step;
        step *= extent;
    }
    return at;
}

/* ---- one element from one ---- */

/* Defines a primitive of one operand: `FORM(name, type)` for each type of the list is a case with the loop. */
#define LOOP1(name, type, expression)                        \
    case BB_##name:                                          \
        for (size_t i = 0; i < y->count; i++) {              \
            type v = ((const type *)x->data)[i];             \
            ((type *)y->data)[i] = (type)(expression);       \
        }                                                    \
        return BB_OK;

#define UNARY(method, CASES)                                                                                           \
    static int32_t method(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error) { \
        MAKE(y);                                                                                                       \
        switch (x->dtype) { CASES }                                                                                    \
        return give_up(results, error, BB_UNSUPPORTED, #method " has no such type");                                   \
    }

/* Integers wrap, which C promises for unsigned ones alone. */
#define NEG_FLOAT(name, type) LOOP1(name, type, -v)
#define NEG_SIGNED(name, type) LOOP1(name, type, 0 - (uint64_t)v)
#define ABS_FLOAT(name, type) LOOP1(name, type, fabs(v))
#define ABS_SIGNED(name, type) LOOP1(name, type, v < 0 ? 0 - (uint64_t)v : (uint64_t)v)
#define ABS_UNSIGNED(name, type) LOOP1(name, type, v)
#define SQRT(name, type) LOOP1(name, type, sqrt(v))
#define EXP(name, type) LOOP1(name, type, exp(v))
#define LOG(name, type) LOOP1(name, type, log(v))

UNARY(neg, FLOATS(NEG_FLOAT) SIGNED(NEG_SIGNED))
UNARY(abs_, FLOATS(ABS_FLOAT) SIGNED(ABS_SIGNED) UNSIGNED(ABS_UNSIGNED))
UNARY(sqrt_, FLOATS(SQRT))
UNARY(exp_, FLOATS(EXP))
UNARY(log_, FLOATS(LOG))

/* ---- one element from two ---- */

#define LOOP2(name, in, out, check, expression)                    \
    case BB_##name:                                                \
        for (size_t i = 0; i < y->count; i++) {                    \
            in v = ((const in *)a->data)[broadcast(a, y, i)];      \
            in w = ((const in *)b->data)[broadcast(b, y, i)];      \
            check;                                                 \
            ((out *)y->data)[i] = (out)(expression);               \
        }                                                          \
        return BB_OK;

#define BINARY(method, CASES)                                                                                        \
    static int32_t method(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results,           \
                          size_t count, bb_error *error) {                                                           \
        MAKE(y);                                                                                                     \
        switch (a->dtype) { CASES }                                                                                  \
        return give_up(results, error, BB_UNSUPPORTED, #method " has no such type");                                 \
    }

#define BY_ZERO if (w == 0) return give_up(results, error, BB_WRONG_INPUT, "an integer is divided by zero")

#define ADD_FLOAT(name, type) LOOP2(name, type, type, , v + w)
#define ADD_INT(name, type) LOOP2(name, type, type, , (uint64_t)v + (uint64_t)w)
#define SUB_FLOAT(name, type) LOOP2(name, type, type, , v - w)
#define SUB_INT(name, type) LOOP2(name, type, type, , (uint64_t)v - (uint64_t)w)
#define MUL_FLOAT(name, type) LOOP2(name, type, type, , v * w)
#define MUL_INT(name, type) LOOP2(name, type, type, , (uint64_t)v * (uint64_t)w)
#define DIV_FLOAT(name, type) LOOP2(name, type, type, , v / w)
/* The least integer divided by -1 does not fit, and wraps. */
#define DIV_SIGNED(name, type) LOOP2(name, type, type, BY_ZERO, w == -1 ? 0 - (uint64_t)v : (uint64_t)(v / w))
#define DIV_UNSIGNED(name, type) LOOP2(name, type, type, BY_ZERO, v / w)
#define EQUAL(name, type) LOOP2(name, type, bool, , v == w)
#define GREATER(name, type) LOOP2(name, type, bool, , v > w)
#define LESS(name, type) LOOP2(name, type, bool, , v < w)

BINARY(add, FLOATS(ADD_FLOAT) SIGNED(ADD_INT) UNSIGNED(ADD_INT))
BINARY(sub, FLOATS(SUB_FLOAT) SIGNED(SUB_INT) UNSIGNED(SUB_INT))
BINARY(mul, FLOATS(MUL_FLOAT) SIGNED(MUL_INT) UNSIGNED(MUL_INT))
BINARY(div_, FLOATS(DIV_FLOAT) SIGNED(DIV_SIGNED) UNSIGNED(DIV_UNSIGNED))
BINARY(equal, ALL(EQUAL))
BINARY(greater, NUMBERS(GREATER))
BINARY(less, NUMBERS(LESS))

/* ---- casts ---- */

/* An element of any type: an integer keeps all of its 64 bits. */
typedef struct {
    enum { FLOAT, NEGATIVE, NATURAL } kind;
    double number;
    uint64_t bits;
} element;

static element load(const bb_tensor *x, size_t i) {
    switch (x->dtype) {
#define LOAD_FLOAT(name, type) case BB_##name: return (element){FLOAT, ((const type *)x->data)[i], 0};
#define LOAD_SIGNED(name, type)                                                     \
    case BB_##name: {                                                               \
        int64_t v = ((const type *)x->data)[i];                                     \
        return (element){v < 0 ? NEGATIVE : NATURAL, 0, (uint64_t)v};               \
    }
#define LOAD_UNSIGNED(name, type) case BB_##name: return (element){NATURAL, 0, ((const type *)x->data)[i]};
        FLOATS(LOAD_FLOAT) SIGNED(LOAD_SIGNED) UNSIGNED(LOAD_UNSIGNED) LOAD_UNSIGNED(BOOL, bool)
    }
    return (element){NATURAL, 0, 0};
}

/* A float as an integer, truncated; one that does not fit, and NaN, become the least value, as the instructions of x86-64 do. */
static int32_t to_i32(double v) { return v > -2147483649.0 && v < 2147483648.0 ? (int32_t)v : INT32_MIN; }
static int64_t to_i64(double v) { return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN; }
static uint64_t to_u64(double v) {
    return v >= 9223372036854775808.0 ? (uint64_t)to_i64(v - 9223372036854775808.0) ^ (1ull << 63) : (uint64_t)to_i64(v);
}

static void store(bb_tensor *y, size_t i, element e) {
    int64_t wide = (int64_t)e.bits;
    switch (y->dtype) {
#define STORE_FLOAT(name, type)                                                                                         \
    case BB_##name:                                                                                                     \
        ((type *)y->data)[i] = e.kind == FLOAT ? (type)e.number : e.kind == NEGATIVE ? (type)wide : (type)e.bits;      \
        break;
#define STORE(name, type, from_float)                                                      \
    case BB_##name:                                                                        \
        ((type *)y->data)[i] = (type)(e.kind == FLOAT ? (uint64_t)(from_float) : e.bits);  \
        break;
        FLOATS(STORE_FLOAT)
        STORE(I8, int8_t, to_i32(e.number)) STORE(I16, int16_t, to_i32(e.number)) STORE(I32, int32_t, to_i32(e.number))
        STORE(U8, uint8_t, to_i32(e.number)) STORE(U16, uint16_t, to_i32(e.number)) STORE(U32, uint32_t, to_i64(e.number))
        STORE(I64, int64_t, to_i64(e.number)) STORE(U64, uint64_t, to_u64(e.number))
        case BB_BOOL: ((bool *)y->data)[i] = e.kind == FLOAT ? e.number != 0 : e.bits != 0; break;
    }
}

/* `saturate` and `round_mode` are for 8-bit floats, which this backend does not have. */
static int32_t cast(bb_backend *backend, const bb_tensor *x, int32_t to, bool saturate, int32_t round_mode,
                    bb_result *results, size_t count, bb_error *error) {
    MAKE(y);
    (void)to, (void)saturate, (void)round_mode;
    for (size_t i = 0; i < y->count; i++) store(y, i, load(x, i));
    return BB_OK;
}

static double number_of(element e) {
    return e.kind == FLOAT ? e.number : e.kind == NEGATIVE ? (double)(int64_t)e.bits : (double)e.bits;
}

/* An integer to an integer power, wrapped; false for 0 to a negative power. The truncated quotient is 0 but for 1 and -1. */
static bool integer_power(uint64_t base, element exponent, uint64_t *power) {
    if (exponent.kind == NEGATIVE) {
        bool odd = exponent.bits & 1;
        *power = base == 1 ? 1 : base == (uint64_t)-1 ? (odd ? base : 1) : 0;
        return base != 0;
    }
    *power = 1;
    for (uint64_t rest = exponent.bits; rest; rest >>= 1, base *= base)
        if (rest & 1) *power *= base;
    return true;
}

static int32_t pow_(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count,
                    bb_error *error) {
    MAKE(y);
    for (size_t i = 0; i < y->count; i++) {
        element v = load(a, broadcast(a, y, i)), w = load(b, broadcast(b, y, i)), power = {NATURAL, 0, 0};
        if (v.kind == FLOAT || w.kind == FLOAT)
            power = (element){FLOAT, pow(number_of(v), number_of(w)), 0};
        else if (!integer_power(v.bits, w, &power.bits))
            return give_up(results, error, BB_WRONG_INPUT, "the integer 0 has no negative power: a division by zero");
        store(y, i, power);
    }
    return BB_OK;
}

/* ---- products ---- */

/* Sums of 32-bit floats are kept in 64 bits, so that they are rounded once. */
#define DOT(name, type, wide)                                                                     \
    case BB_##name:                                                                               \
        for (size_t row = 0; row < m; row++)                                                      \
            for (size_t column = 0; column < n; column++) {                                       \
                wide sum = 0;                                                                     \
                for (size_t i = 0; i < k; i++)                                                    \
                    sum += (wide)((const type *)a->data)[left + row * k + i]                      \
                           * (wide)((const type *)b->data)[right + i * n + column];               \
                ((type *)y->data)[(batch * m + row) * n + column] = (type)sum;                    \
            }                                                                                     \
        break;
#define DOT_FLOAT(name, type) DOT(name, type, double)
#define DOT_INT(name, type) DOT(name, type, uint64_t)

/* The number of the matrix of an operand that belongs to a batch of the result, whose leading extents are `shape`. */
static size_t matrix(const bb_tensor *x, const size_t *shape, size_t rank, size_t batch) {
    size_t leading = x->rank > 2 ? x->rank - 2 : 0, at = 0, step = 1;
    for (size_t d = 0; d < rank; d++) {
        size_t index = batch % shape[rank - 1 - d];
        batch /= shape[rank - 1 - d];
        if (d >= leading) continue;
        size_t extent = x->shape[leading - 1 - d];
        if (extent != 1) at += index * step;
        step *= extent;
    }
    return at;
}

static int32_t matmul(bb_backend *backend, const bb_tensor *a, const bb_tensor *b, bb_result *results, size_t count,
                      bb_error *error) {
    MAKE(y);
    /* An operand of one dimension is a row or a column, whose extent of 1 the result lacks. */
    size_t m = a->rank > 1 ? a->shape[a->rank - 2] : 1, k = a->shape[a->rank - 1];
    size_t n = b->rank > 1 ? b->shape[b->rank - 1] : 1;
    size_t leading = y->rank - (a->rank > 1) - (b->rank > 1);
    size_t batches = count_of(y->shape, leading);
    if (!y->count) return BB_OK;
    for (size_t batch = 0; batch < batches; batch++) {
        size_t left = matrix(a, y->shape, leading, batch) * m * k;
        size_t right = matrix(b, y->shape, leading, batch) * k * n;
        switch (a->dtype) { FLOATS(DOT_FLOAT) SIGNED(DOT_INT) UNSIGNED(DOT_INT) }
    }
    return BB_OK;
}

/* ---- reductions ---- */

static size_t axis_of(int64_t axis, size_t rank) { return axis < 0 ? (size_t)(axis + (int64_t)rank) : (size_t)axis; }

/* Tells which dimensions are reduced: all, if none is named. */
static bool *reduced(const bb_tensor *x, bb_ints axes) {
    bool *marks = calloc(x->rank + 1, sizeof *marks);
    if (!marks) return NULL;
    for (size_t d = 0; d < x->rank; d++) marks[d] = axes.count == 0;
    for (size_t i = 0; i < axes.count; i++) marks[axis_of(axes.items[i], x->rank)] = true;
    return marks;
}

/* Where the result has the sum to which element `i` goes. */
static size_t group(const bb_tensor *x, const bool *marks, size_t i) {
    size_t at = 0, step = 1;
    for (size_t d = x->rank; d-- > 0;) {
        size_t index = i % x->shape[d];
        i /= x->shape[d];
        if (marks[d]) continue;
        at += index * step;
        step *= x->shape[d];
    }
    return at;
}

#define REDUCE(name, type, wide, first, step, last)                                    \
    case BB_##name: {                                                                  \
        wide *sums = malloc((y->count + 1) * sizeof *sums);                            \
        if (!sums) break;                                                              \
        for (size_t i = 0; i < y->count; i++) sums[i] = first;                         \
        for (size_t i = 0; i < x->count; i++) {                                        \
            wide v = (wide)((const type *)x->data)[i], *s = &sums[group(x, marks, i)]; \
            step;                                                                      \
        }                                                                              \
        for (size_t i = 0; i < y->count; i++) {                                        \
            wide s = sums[i];                                                          \
            ((type *)y->data)[i] = (type)(last);                                       \
        }                                                                              \
        free(sums), free(marks);                                                       \
        return BB_OK;                                                                  \
    }

#define REDUCTION(method, check, CASES)                                                                            \
    static int32_t method(bb_backend *backend, const bb_tensor *x, bb_ints axes, bool keepdims, bb_result *results, \
                          size_t count, bb_error *error) {                                                         \
        MAKE(y);                                                                                                   \
        (void)keepdims;                                                                                            \
        size_t length = y->count ? x->count / y->count : 0;                                                        \
        (void)length;                                                                                              \
        check;                                                                                                     \
        bool *marks = reduced(x, axes);                                                                            \
        if (!marks) return give_up(results, error, BB_LIMIT, "there is no memory for a reduction");                \
        switch (x->dtype) { CASES }                                                                                \
        free(marks);                                                                                               \
        return give_up(results, error, BB_LIMIT, "there is no memory for a reduction");                            \
    }

/* A mean of no floats is NaN; one of no integers is nothing. */
#define NO_INTEGERS                                                                              \
    if (!x->count && y->count && x->dtype != BB_F32 && x->dtype != BB_F64)                       \
        return give_up(results, error, BB_WRONG_INPUT, "the mean of no integers is a division by zero")

#define SUM_FLOAT(name, type) REDUCE(name, type, double, 0, *s += v, s)
#define SUM_INT(name, type) REDUCE(name, type, uint64_t, 0, *s += v, s)
#define MEAN_FLOAT(name, type) REDUCE(name, type, double, 0, *s += v, s / (double)length)
/* The sum wraps as one of the type does. */
#define MEAN_SIGNED(name, type) REDUCE(name, type, uint64_t, 0, *s += v, (int64_t)(type)s / (int64_t)length)
#define MEAN_UNSIGNED(name, type) REDUCE(name, type, uint64_t, 0, *s += v, (type)s / length)
#define MAX_FLOAT(name, type) REDUCE(name, type, type, (type)-INFINITY, if (v > *s || v != v) *s = v, s)
#define MIN_FLOAT(name, type) REDUCE(name, type, type, (type)INFINITY, if (v < *s || v != v) *s = v, s)
/* The least value of a signed type has its highest bit alone. */
#define LEAST(type) ((type)((type)-1 < 1 ? (uint64_t)1 << (8 * sizeof(type) - 1) : 0))
#define MAX_INT(name, type) REDUCE(name, type, type, LEAST(type), if (v > *s) *s = v, s)
#define MIN_INT(name, type) REDUCE(name, type, type, (type)~LEAST(type), if (v < *s) *s = v, s)
#define MAX_BOOL(name, type) REDUCE(name, type, type, false, *s = *s || v, s)
#define MIN_BOOL(name, type) REDUCE(name, type, type, true, *s = *s && v, s)

REDUCTION(reduce_sum, , FLOATS(SUM_FLOAT) SIGNED(SUM_INT) UNSIGNED(SUM_INT))
REDUCTION(reduce_mean, NO_INTEGERS, FLOATS(MEAN_FLOAT) SIGNED(MEAN_SIGNED) UNSIGNED(MEAN_UNSIGNED))
REDUCTION(reduce_max, , FLOATS(MAX_FLOAT) SIGNED(MAX_INT) UNSIGNED(MAX_INT) MAX_BOOL(BOOL, bool))
REDUCTION(reduce_min, , FLOATS(MIN_FLOAT) SIGNED(MIN_INT) UNSIGNED(MIN_INT) MIN_BOOL(BOOL, bool))

/* ---- moves: elements of any type, by their bytes ---- */

static void move(bb_tensor *y, size_t to, const bb_tensor *x, size_t from, size_t elements) {
    size_t bytes = width(y->dtype);
    memcpy(y->data + to * bytes, x->data + from * bytes, elements * bytes);
}

/* The same elements in the shape of the result. */
static int32_t same_elements(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error) {
    MAKE(y);
    move(y, 0, x, 0, y->count);
    return BB_OK;
}

static int32_t reshape(bb_backend *backend, const bb_tensor *x, bb_extents shape, bb_result *results, size_t count,
                       bb_error *error) {
    (void)shape;
    return same_elements(backend, x, results, count, error);
}

static int32_t squeeze(bb_backend *backend, const bb_tensor *x, bb_ints axes, bb_result *results, size_t count,
                       bb_error *error) {
    (void)axes;
    return same_elements(backend, x, results, count, error);
}

/* The stride of dimension `d` of a tensor. */
static size_t stride(const bb_tensor *x, size_t d) { return count_of(x->shape + d + 1, x->rank - d - 1); }

static int32_t transpose(bb_backend *backend, const bb_tensor *x, bb_ints perm, bb_result *results, size_t count,
                         bb_error *error) {
    MAKE(y);
    for (size_t i = 0; i < y->count; i++) {
        size_t rest = i, from = 0;
        for (size_t d = y->rank; d-- > 0; rest /= y->shape[d]) {
            size_t source = perm.count ? axis_of(perm.items[d], x->rank) : x->rank - 1 - d;
            from += rest % y->shape[d] * stride(x, source);
        }
        move(y, i, x, from, 1);
    }
    return BB_OK;
}

static int32_t concat(bb_backend *backend, bb_tensors xs, int64_t axis, bb_result *results, size_t count, bb_error *error) {
    MAKE(y);
    size_t at = axis_of(axis, y->rank), outer = count_of(y->shape, at), inner = stride(y, at), to = 0;
    for (size_t row = 0; row < outer; row++)
        for (size_t i = 0; i < xs.count; i++) {
            size_t part = xs.items[i]->shape[at] * inner;
            move(y, to, xs.items[i], row * part, part);
            to += part;
        }
    return BB_OK;
}

static int32_t split(bb_backend *backend, const bb_tensor *x, int64_t axis, bb_extents sizes, bb_result *results,
                     size_t count, bb_error *error) {
    (void)backend;
    size_t at = axis_of(axis, x->rank), outer = count_of(x->shape, at), inner = stride(x, at), from = 0;
    for (size_t i = 0; i < count; i++)
        if (!make(&results[i], error)) {
            while (i-- > 0) release(NULL, results[i].tensor), results[i].tensor = NULL;
            return BB_LIMIT;
        }
    for (size_t row = 0; row < outer; row++)
        for (size_t i = 0; i < count; i++) {
            size_t part = sizes.items[i] * inner;
            move(results[i].tensor, row * part, x, from, part);
            from += part;
        }
    return BB_OK;
}

/* Clamps a bound, of which negative ones count from the end. */
static int64_t clamp(int64_t bound, int64_t extent, int64_t least, int64_t most) {
    if (bound < 0) bound = bound < -extent ? -1 - extent : bound;
    if (bound < 0) bound += extent;
    return bound < least ? least : bound > most ? most : bound;
}

static int32_t slice(bb_backend *backend, const bb_tensor *x, bb_ints starts, bb_ints ends, bb_ints axes, bb_ints steps,
                     bb_result *results, size_t count, bb_error *error) {
    MAKE(y);
    (void)ends;
    for (size_t i = 0; i < y->count; i++) {
        size_t rest = i, from = 0;
        for (size_t d = y->rank; d-- > 0; rest /= y->shape[d]) {
            int64_t start = 0, step = 1, extent = (int64_t)x->shape[d];
            for (size_t j = 0; j < starts.count; j++)
                if ((axes.count ? axis_of(axes.items[j], x->rank) : j) == d) {
                    step = steps.count ? steps.items[j] : 1;
                    start = clamp(starts.items[j], extent, 0, step < 0 ? extent - 1 : extent);
                }
            from += (size_t)(start + (int64_t)(rest % y->shape[d]) * step) * stride(x, d);
        }
        move(y, i, x, from, 1);
    }
    return BB_OK;
}

static int32_t where(bb_backend *backend, const bb_tensor *condition, const bb_tensor *x, const bb_tensor *z,
                     bb_result *results, size_t count, bb_error *error) {
    MAKE(y);
    for (size_t i = 0; i < y->count; i++) {
        const bb_tensor *from = ((const bool *)condition->data)[broadcast(condition, y, i)] ? x : z;
        move(y, i, from, broadcast(from, y, i), 1);
    }
    return BB_OK;
}

static int32_t gather(bb_backend *backend, const bb_tensor *data, const bb_tensor *indices, int64_t axis,
                      bb_result *results, size_t count, bb_error *error) {
    MAKE(y);
    size_t at = axis_of(axis, data->rank), outer = count_of(data->shape, at), inner = stride(data, at);
    int64_t extent = (int64_t)data->shape[at];
    for (size_t i = 0; i < indices->count; i++) {
        int64_t index = (int64_t)load(indices, i).bits, from = index < 0 ? index + extent : index;
        if (from < 0 || from >= extent) {
            char text[128];
            snprintf(text, sizeof text, "index %lld is out of range: the extent is %lld", (long long)index, (long long)extent);
            return give_up(results, error, BB_WRONG_INPUT, text);
        }
        for (size_t row = 0; row < outer; row++)
            move(y, (row * indices->count + i) * inner, data, (row * (size_t)extent + (size_t)from) * inner, inner);
    }
    return BB_OK;
}

/* ---- to and from the host ---- */

static int32_t constant(bb_backend *backend, const bb_data *value, bb_result *results, size_t count, bb_error *error) {
    MAKE(y);
    if (value->length) memcpy(y->data, value->bytes, value->length);
    return BB_OK;
}

static int32_t to_host(bb_backend *backend, const bb_tensor *x, uint8_t *bytes, size_t capacity, size_t *length,
                       bb_error *error) {
    (void)backend, (void)error;
    *length = x->count * width(x->dtype);
    if (*length && *length <= capacity) memcpy(bytes, x->data, *length);
    return BB_OK;
}

/* ---- the library ---- */

static int32_t describe(bb_description *description, bb_error *error) {
    size_t size = description->size < sizeof(bb_description) ? description->size : sizeof(bb_description);
    bb_description all = {
        .size = size,
        .name = BB_TEXT("plain"),
        .version = BB_TEXT("1.0.0"),
        .path = BB_TEXT("plain.c"),
        .types = TYPES,
        .fingerprint = 1,
    };
    (void)error;
    memcpy(description, &all, size);
    return BB_OK;
}

static int32_t open_(bb_named_list options, bb_backend **backend, bb_error *error) {
    (void)options;
    *backend = malloc(sizeof **backend);
    return *backend ? BB_OK : fail(error, BB_LIMIT, "there is no memory for a backend");
}

static void close_(bb_backend *backend) { free(backend); }

static const bb_primitives PRIMITIVES = {
    .size = sizeof(bb_primitives),
    .add = add,
    .sub = sub,
    .mul = mul,
    .div = div_,
    .neg = neg,
    .abs = abs_,
    .sqrt = sqrt_,
    .pow = pow_,
    .exp = exp_,
    .log = log_,
    .matmul = matmul,
    .reduce_sum = reduce_sum,
    .reduce_mean = reduce_mean,
    .reduce_max = reduce_max,
    .reduce_min = reduce_min,
    .reshape = reshape,
    .transpose = transpose,
    .concat = concat,
    .slice = slice,
    .split = split,
    .squeeze = squeeze,
    .unsqueeze = squeeze,
    .identity = same_elements,
    .cast = cast,
    .equal = equal,
    .greater = greater,
    .less = less,
    .where = where,
    .constant = constant,
    .gather = gather,
};

BB_EXPORT const bb_library bb_backend_library = {
    .size = sizeof(bb_library),
    .magic = BB_MAGIC,
    .version = BB_VERSION,
    .flags = BB_UNLOADS,
    .fingerprint = BB_PRIMITIVES,
    .primitives = &PRIMITIVES,
    .describe = describe,
    .open = open_,
    .close = close_,
    .to_host = to_host,
    .release = release,
};
