/*
 * Runs a model with ones as inputs, and prints the first elements of each output.
 *
 *     cargo build --release -p bb-c-host
 *     cc -std=c11 -I doors/c/include doors/c/examples/host.c -L target/release -lbb_host -Wl,-rpath,$PWD/target/release -o host
 *     ./host tests/data/models/surfaces_gbr/model.onnx cpu
 */
#include "bb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[8192];
static bb_error error = {.size = sizeof error, .text = text, .capacity = sizeof text};

static void check(int32_t status) {
    if (status == BB_OK) return;
    fprintf(stderr, "error %d: %.*s\n", (int)status, (int)error.length, text);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL BACKEND [LIBRARY...]\n", argv[0]);
        return 2;
    }
    for (int i = 3; i < argc; i++) check(bb_load_backend(argv[i], &error));

    bb_session *session = NULL;
    check(bb_session_open(argv[1], argv[2], (bb_named_list){0}, &session, &error));

    size_t count = bb_session_input_count(session);
    bb_input *inputs = calloc(count + 1, sizeof *inputs);
    for (size_t i = 0; i < count; i++) {
        bb_port port;
        check(bb_session_input(session, i, &port));
        if (port.dtype != BB_F32) {
            fprintf(stderr, "input %.*s is not of f32\n", (int)port.name.count, port.name.items);
            return 1;
        }
        if (port.rank == BB_UNKNOWN_RANK) {
            fprintf(stderr, "the model does not fix the number of extents of input %.*s\n", (int)port.name.count, port.name.items);
            return 1;
        }
        /* An extent that is not fixed is 1. */
        size_t *shape = calloc(port.rank + 1, sizeof *shape), elements = 1;
        for (size_t d = 0; d < port.rank; d++) elements *= shape[d] = port.shape[d] == BB_UNKNOWN_EXTENT ? 1 : port.shape[d];
        float *ones = calloc(elements + 1, sizeof *ones);
        for (size_t e = 0; e < elements; e++) ones[e] = 1;
        inputs[i] = (bb_input){port.name, {BB_F32, port.rank, shape, (uint8_t *)ones, elements * sizeof *ones}};
    }

    bb_run *run = NULL;
    check(bb_session_run(session, inputs, count, &run, &error));
    for (size_t i = 0; i < bb_session_output_count(session); i++) {
        bb_port port;
        bb_data data;
        check(bb_session_output(session, i, &port));
        check(bb_run_output(run, i, &data));
        printf("%.*s:", (int)port.name.count, port.name.items);
        for (size_t e = 0; data.dtype == BB_F32 && e < data.length / sizeof(float) && e < 8; e++) {
            float value;
            memcpy(&value, data.bytes + e * sizeof value, sizeof value);
            printf(" %.6f", value);
        }
        printf("\n");
    }

    bb_run_free(run);
    for (size_t i = 0; i < count; i++) free((void *)inputs[i].data.shape), free((void *)inputs[i].data.bytes);
    free(inputs);
    bb_session_close(session);
    return 0;
}
