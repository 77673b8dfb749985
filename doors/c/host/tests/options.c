/* What options do: `options.rs` passes a model whose loop runs as often as the input `n` says, and whose value `h` is `-x`. */
#include "bb.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[4096];
static bb_error error = {.size = sizeof error, .text = text, .capacity = sizeof text};

static void expect(int line, int32_t status, int32_t expected, const char *words) {
    const char *end = text + (status == BB_OK ? 0 : error.length);
    *(char *)end = 0;
    if (status == expected && (words == NULL || strstr(text, words) != NULL)) return;
    fprintf(stderr, "line %d: status %d, expected %d with `%s`: %s\n", line, (int)status, (int)expected, words ? words : "", text);
    exit(1);
}
#define EXPECT(status, expected, words) expect(__LINE__, (status), (expected), (words))

static void *set; /* An address that is not null. */
static void is_null(int line, const void *pointer) {
    if (pointer == NULL) return;
    fprintf(stderr, "line %d: the pointer is not null after a failure\n", line);
    exit(1);
}

static void *cancels(void *cancel) {
    usleep(200 * 1000);
    bb_cancel_runs(cancel);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    set = &error;
    bb_session *session = set;

    bb_named limit = {BB_TEXT("limits.model_bytes"), BB_TEXT("16")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&limit, 1}, &session, &error), BB_LIMIT, "at most 16 allowed by the limit `limits.model_bytes`, got ");
    is_null(__LINE__, session);
    session = set;
    EXPECT(bb_session_open(argv[1], NULL, (bb_named_list){0}, &session, &error), BB_WRONG_INPUT, "expected the name of a backend in UTF-8, got null");
    is_null(__LINE__, session);
    bb_named thousands = {BB_TEXT("limits.model_bytes"), BB_TEXT("1KB")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&thousands, 1}, &session, &error), BB_CONFIGURATION, "the limit `limits.model_bytes` cannot be `1KB`; ");
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&thousands, 1}, &session, &error), BB_CONFIGURATION, "with the unit K, M, G, T, KiB, MiB, GiB or TiB");
    bb_named unknown_limit = {BB_TEXT("limits.colour"), BB_TEXT("16")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&unknown_limit, 1}, &session, &error), BB_CONFIGURATION, "there is no limit `limits.colour`; the limits and their default values are: `limits.model_bytes` (16GiB)");
    bb_named unknown = {BB_TEXT("colour"), BB_TEXT("red")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&unknown, 1}, &session, &error), BB_CONFIGURATION, "colour");
    bb_named number = {BB_TEXT("threads"), BB_TEXT("many")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&number, 1}, &session, &error), BB_CONFIGURATION, "many");
    bb_named level = {BB_TEXT("level"), BB_TEXT("sse")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&level, 1}, &session, &error), BB_CONFIGURATION, "the option `level` is `sse`; expected `portable`");
    bb_named much = {BB_TEXT("memory"), BB_TEXT("1 lot")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&much, 1}, &session, &error), BB_CONFIGURATION, "or one with the unit K, M, G, T, KiB, MiB, GiB or TiB, as in 4GiB");
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){NULL, 2}, &session, &error), BB_WRONG_INPUT, "its pointer is null");
    bb_named nameless = {BB_TEXT(""), BB_TEXT("2")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&nameless, 1}, &session, &error), BB_CONFIGURATION, "has no name");
    bb_named truth = {BB_TEXT("narrow_floats"), BB_TEXT("maybe")};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){&truth, 1}, &session, &error), BB_CONFIGURATION, "maybe");
    EXPECT(bb_session_open(argv[1], "nothing", (bb_named_list){0}, &session, &error), BB_CONFIGURATION, "`bb_load_backend` loads one");
    char small[16];
    bb_error little = {.size = sizeof little, .text = small, .capacity = sizeof small};
    int32_t status = bb_session_open(argv[1], "nothing", (bb_named_list){0}, &session, &little);
    if (status != BB_CONFIGURATION || little.length != 16 || memcmp(small, text, 13) != 0 || memcmp(small + 13, "…", 3) != 0) {
        fprintf(stderr, "a text that is cut has no mark: %.*s\n", (int)little.length, small);
        return 1;
    }
    if (strstr(text, "derive") != NULL || strstr(text, "as _") != NULL) {
        fprintf(stderr, "a program in C is told to write Rust: %s\n", text);
        return 1;
    }

    bb_named given[2] = {{BB_TEXT("threads"), BB_TEXT("1")}, {BB_TEXT("memory"), BB_TEXT("1G")}};
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){given, 2}, &session, &error), BB_OK, NULL);

    bb_model model = {.size = sizeof model};
    EXPECT(bb_session_model(session, &model), BB_OK, NULL);
    printf("%.*s %.*s %d\n", (int)model.producer.count, model.producer.items, (int)model.graph.count, model.graph.items, (int)model.version);
    for (size_t i = 0; i < model.entries.count; i++) {
        bb_named entry = model.entries.items[i];
        printf("%.*s=%.*s\n", (int)entry.name.count, entry.name.items, (int)entry.value.count, entry.value.items);
    }
    EXPECT(bb_session_model(session, NULL), BB_WRONG_INPUT, NULL);
    model.size = 0;
    EXPECT(bb_session_model(session, &model), BB_WRONG_INPUT, NULL);

    int64_t n = 3;
    float x[4] = {1, 2, 3, 4};
    size_t shape[2] = {2, 2};
    bb_input inputs[2] = {
        {BB_TEXT("n"), {BB_I64, 0, shape, (uint8_t *)&n, sizeof n}},
        {BB_TEXT("x"), {BB_F32, 2, shape, (uint8_t *)x, sizeof x}},
    };
    bb_run *run = NULL;
    bb_data data;
    EXPECT(bb_session_run_with(session, inputs, 2, NULL, &run, &error), BB_OK, NULL);
    printf("%d outputs\n", (int)bb_run_output_count(run));
    bb_run_free(run);

    bb_text names[2] = {BB_TEXT("h"), BB_TEXT("y")};
    bb_run_options options = {.size = sizeof options, .values = {names, 2}};
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error), BB_OK, NULL);
    EXPECT(bb_run_output(run, 0, &data), BB_OK, NULL);
    float h[4];
    memcpy(h, data.bytes, sizeof h);
    printf("%d outputs, h is %.0f %.0f\n", (int)bb_run_output_count(run), h[0], h[3]);
    bb_run_free(run);
    names[0] = BB_TEXT("y");
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error), BB_OK, NULL);
    bb_run_free(run);
    run = set;
    EXPECT(bb_session_run(NULL, NULL, 0, &run, &error), BB_WRONG_INPUT, "expected a session, got null");
    is_null(__LINE__, run);
    run = set;
    EXPECT(bb_session_run_with(session, NULL, 1, NULL, &run, &error), BB_WRONG_INPUT, "the list of inputs has 1 entries, but its pointer is null");
    is_null(__LINE__, run);
    bb_session *none = NULL;
    EXPECT(bb_session_open_bytes((bb_text){NULL, 9}, "cpu", (bb_named_list){0}, &none, &error), BB_WRONG_INPUT, "the model has 9 entries, but its pointer is null");
    options.values = (bb_texts){NULL, 2};
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error), BB_WRONG_INPUT, "its pointer is null");
    options.values = (bb_texts){names, 2};
    inputs[1].data.length = 8;
    EXPECT(bb_session_run(session, inputs, 2, &run, &error), BB_WRONG_INPUT, "input `x`: a tensor of f32 with extents [2, 2] needs 16 bytes, got 8");
    inputs[1].data.length = sizeof x;
    inputs[1].data.bytes = NULL;
    EXPECT(bb_session_run(session, inputs, 2, &run, &error), BB_WRONG_INPUT, "input `x`: `bytes` is null, but the `length` in bytes is 16");
    inputs[1].data.bytes = (uint8_t *)x;
    names[0] = BB_TEXT("nothing");
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error), BB_WRONG_INPUT, "`nothing`; its outputs are");
    EXPECT(bb_session_run(session, inputs, 1, &run, &error), BB_WRONG_INPUT, "input `x` is missing");
    is_null(__LINE__, run);
    if (strstr(text, "failed") != NULL) {
        fprintf(stderr, "the backend is blamed for the caller's mistake: %s\n", text);
        return 1;
    }

    options.size = 0;
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error), BB_WRONG_INPUT, "sizeof(bb_run_options)");

    n = 1000000;
    options = (bb_run_options){.size = sizeof options, .timeout_ms = 50};
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error), BB_CANCELLED, "deadline");
    bb_cancel *cancel = bb_cancel_new();
    options = (bb_run_options){.size = sizeof options, .cancel = cancel};
    pthread_t thread;
    if (pthread_create(&thread, NULL, cancels, cancel) != 0) return 1;
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error), BB_CANCELLED, "cancelled");
    pthread_join(thread, NULL);
    bb_cancel_free(cancel);

    bb_session_close(session);
    return 0;
}
