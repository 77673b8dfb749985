/* Kinds of ports: `ports` passes a model with a scalar `s`, a tensor `u` of unknown rank, and a sequence as its first output. */
#include "bb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[4096];
static bb_error error = {.size = sizeof error, .text = text, .capacity = sizeof text - 1};

static void expect(int line, bool holds, const char *what) {
    if (holds) return;
    text[error.length] = 0;
    fprintf(stderr, "line %d: %s; the last error is: %s\n", line, what, text);
    exit(1);
}
#define EXPECT(condition) expect(__LINE__, (condition), #condition)

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    bb_session *session = NULL;
    EXPECT(bb_session_open(argv[1], "cpu", (bb_named_list){0}, &session, &error) == BB_OK);

    bb_port port;
    EXPECT(bb_session_input(session, 0, &port) == BB_OK);
    EXPECT(port.dtype == BB_F32 && port.rank == 0 && port.shape != NULL);
    EXPECT(bb_session_input(session, 1, &port) == BB_OK);
    EXPECT(port.dtype == BB_F32 && port.rank == BB_UNKNOWN_RANK && port.shape == NULL);
    EXPECT(bb_session_output(session, 0, &port) == BB_OK);
    EXPECT(port.dtype == 0 && port.rank == BB_UNKNOWN_RANK && port.shape == NULL);
    EXPECT(bb_session_output(session, 1, &port) == BB_OK);
    EXPECT(port.dtype == BB_F32 && port.rank == BB_UNKNOWN_RANK);
    EXPECT(bb_session_output(session, 2, &port) == BB_OK);
    EXPECT(port.dtype == BB_F32 && port.rank == 0);

    EXPECT(bb_session_value_count(session) == 2 && bb_session_value_count(NULL) == 0);
    EXPECT(bb_session_value(session, 0, &port) == BB_OK);
    EXPECT(port.name.count == 5 && memcmp(port.name.items, "minus", 5) == 0);
    EXPECT(port.dtype == BB_F32 && port.rank == 0 && port.shape != NULL);
    EXPECT(bb_session_value(session, 1, &port) == BB_OK);
    EXPECT(port.name.count == 5 && memcmp(port.name.items, "apart", 5) == 0);
    EXPECT(port.dtype == BB_F32 && port.rank == BB_UNKNOWN_RANK && port.shape == NULL);
    EXPECT(bb_session_value(session, 2, &port) == BB_WRONG_INPUT);

    float s = 3, u[2] = {1, 2};
    size_t two = 2;
    bb_input inputs[2] = {
        {BB_TEXT("s"), {BB_F32, 0, NULL, (uint8_t *)&s, sizeof s}},
        {BB_TEXT("u"), {BB_F32, 1, &two, (uint8_t *)u, sizeof u}},
    };
    bb_run *run = NULL;
    EXPECT(bb_session_run(session, inputs, 2, &run, &error) == BB_WRONG_INPUT && run == NULL);
    text[error.length] = 0;
    EXPECT(strncmp(text, "output `list` is a sequence of f32", 34) == 0);
    EXPECT(strstr(text, ", but the C interface has only tensors: name other values in `bb_run_options.values`, or ") != NULL);
    EXPECT(strstr(text, "run_items") == NULL);

    bb_text names[2] = {BB_TEXT("v"), BB_TEXT("w")};
    bb_run_options options = {.size = sizeof options, .values = {names, 2}};
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error) == BB_OK);
    for (size_t i = 0; i < bb_run_output_count(run); i++) {
        bb_data data;
        EXPECT(bb_run_output(run, i, &data) == BB_OK);
        printf("%s has rank %d:", names[i].items, (int)data.rank);
        for (size_t e = 0; e < data.length / sizeof(float); e++) {
            float value;
            memcpy(&value, data.bytes + e * sizeof value, sizeof value);
            printf(" %.0f", value);
        }
        printf("\n");
    }
    bb_run_free(run);

    bb_text minus = BB_TEXT("minus");
    options.values = (bb_texts){&minus, 1};
    EXPECT(bb_session_run_with(session, inputs, 2, &options, &run, &error) == BB_OK);
    bb_data between;
    EXPECT(bb_run_output(run, 0, &between) == BB_OK && between.dtype == BB_F32 && between.length == sizeof s);
    memcpy(&s, between.bytes, sizeof s);
    EXPECT(s == -3);
    bb_run_free(run);
    bb_session_close(session);
    return 0;
}
