// Runs a model on llama.cpp as `session.py` asks, line by line:
//   speed ... | N          runs the tokens as a prompt, then chooses N tokens greedily; prints the seconds of both
//   tokens ... | N        the same; prints each token and how much greater its logit is than the next one
//   loss ...              prints the mean negative logarithm of the probability of each token but the first
// The arguments are the model, the number of threads and the greatest number of tokens.
#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;

static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Runner {
    llama_context * context;
    int vocabulary;
    llama_batch batch;

    void fail(const char * what) {
        fprintf(stderr, "llama.cpp: %s\n", what);
        exit(1);
    }

    // Runs tokens behind those so far; `all` asks for the logits behind each of them, not only the last.
    void run(const std::vector<llama_token> & tokens, int past, bool all) {
        batch.n_tokens = (int) tokens.size();
        for (int i = 0; i < batch.n_tokens; ++i) {
            batch.token[i] = tokens[i];
            batch.pos[i] = past + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = all || i + 1 == batch.n_tokens;
        }
        if (llama_decode(context, batch) != 0) {
            fail("a run failed");
        }
    }

    // Returns the token of the greatest logit, and the difference to the next.
    std::pair<llama_token, float> most() {
        const float * logits = llama_get_logits_ith(context, -1);
        int best = 0;
        float next = -INFINITY;
        for (int i = 1; i < vocabulary; ++i) {
            if (logits[i] > logits[best]) {
                next = logits[best];
                best = i;
            } else if (logits[i] > next) {
                next = logits[i];
            }
        }
        return { best, logits[best] - next };
    }

    void generate(const std::vector<llama_token> & prompt, int count, bool shows) {
        llama_memory_clear(llama_get_memory(context), true);
        auto start = Clock::now();
        run(prompt, 0, false);
        llama_synchronize(context);
        double reading = since(start);
        start = Clock::now();
        for (int i = 0; i < count; ++i) {
            auto [token, margin] = most();
            if (shows) {
                printf("%d %.6f ", token, margin);
            }
            if (i + 1 < count) {
                run({ token }, (int) prompt.size() + i, false);
            }
        }
        if (!shows) {
            printf("%.6f %.6f", reading, since(start));
        }
    }

    void loss(const std::vector<llama_token> & tokens) {
        llama_memory_clear(llama_get_memory(context), true);
        run(tokens, 0, true);
        double sum = 0;
        for (size_t i = 0; i + 1 < tokens.size(); ++i) {
            const float * logits = llama_get_logits_ith(context, (int) i);
            float most = *std::max_element(logits, logits + vocabulary);
            double all = 0;
            for (int j = 0; j < vocabulary; ++j) {
                all += std::exp((double) (logits[j] - most));
            }
            sum -= (double) (logits[tokens[i + 1]] - most) - std::log(all);
        }
        printf("%.8f", sum / (double) (tokens.size() - 1));
    }
};

int main(int argc, char ** argv) {
    if (argc != 4) {
        fprintf(stderr, "expected: MODEL THREADS CONTEXT\n");
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    auto start = Clock::now();
    llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (model == nullptr) {
        fprintf(stderr, "llama.cpp: the model cannot be opened\n");
        return 1;
    }
    llama_context_params params = llama_context_default_params();
    params.n_threads = params.n_threads_batch = atoi(argv[2]);
    params.n_ctx = params.n_batch = atoi(argv[3]);
    llama_context * context = llama_init_from_model(model, params);
    if (context == nullptr) {
        fprintf(stderr, "llama.cpp: no context\n");
        return 1;
    }
    int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    Runner runner { context, vocabulary, llama_batch_init(atoi(argv[3]), 0, 1) };
    printf("opened %.6f\n", since(start));
    fflush(stdout);
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string what, word;
        std::vector<llama_token> tokens;
        int count = 0;
        words >> what;
        while (words >> word && word != "|") {
            tokens.push_back(atoi(word.c_str()));
        }
        words >> count;
        if (what == "loss") {
            runner.loss(tokens);
        } else {
            runner.generate(tokens, count, what == "tokens");
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
