//! Writes the counters in the text format of Prometheus.

use crate::metrics::{CLOSED, ModelMetrics, PROTOCOLS, ServerMetrics, Times, line};
use crate::model::Model;
use std::sync::atomic::Ordering;

/// A histogram's name, its description, and the function that reads it.
type TimesShown = (&'static str, &'static str, fn(&ModelMetrics) -> &Times);

/// A gauge's name, its description, and the function that reads it.
type GaugeShown = (&'static str, &'static str, fn(&Model) -> usize);

/// Writes all metrics of the server and of the given models.
pub(crate) fn text(server: &ServerMetrics, held: usize, models: &[std::sync::Arc<Model>]) -> String {
    let mut out = String::new();
    let head = |out: &mut String, name: &str, kind: &str, help: &str| {
        line(out, format_args!("# HELP {name} {help}"));
        line(out, format_args!("# TYPE {name} {kind}"));
    };
    head(&mut out, "bb_requests_total", "counter", "Inference requests by model, protocol and outcome.");
    for model in models {
        model.metrics.requests.write(&mut out, "bb_requests_total", &format!("{},", model.metric_labels()));
    }
    head(&mut out, "bb_other_requests_total", "counter", "Requests that are no inference on a known model.");
    server.others.write(&mut out, "bb_other_requests_total", "");
    let times: [TimesShown; 3] = [
        ("bb_request_seconds", "Time from the start of an inference request to its answer.", |m| {
            &m.requests_took
        }),
        ("bb_queue_seconds", "Time that a request waited for its model.", |m| &m.queued),
        ("bb_run_seconds", "Time of a run of the model.", |m| &m.runs),
    ];
    for (name, help, of) in times {
        head(&mut out, name, "histogram", help);
        models.iter().for_each(|model| of(&model.metrics).write(&mut out, name, &model.metric_labels()));
    }
    head(&mut out, "bb_batch_rows", "histogram", "Rows of a run, of all requests that it joins.");
    models
        .iter()
        .for_each(|model| model.metrics.batches.write(&mut out, "bb_batch_rows", &model.metric_labels()));
    let gauges: [GaugeShown; 3] = [
        ("bb_queue_length", "Requests that wait for the model.", |model| model.queue.len()),
        ("bb_queue_limit", "Requests that may wait for the model.", |model| model.queue.limit()),
        ("bb_batching", "1 if requests may be joined, 0 if not.", |model| {
            model.batching.as_ref().is_some_and(|batching| batching.is_on()).into()
        }),
    ];
    for (name, help, of) in gauges {
        head(&mut out, name, "gauge", help);
        for model in models {
            line(&mut out, format_args!("{name}{{{}}} {}", model.metric_labels(), of(model)));
        }
    }
    head(&mut out, "bb_held_bytes", "gauge", "Bytes that all requests and answers hold.");
    line(&mut out, format_args!("bb_held_bytes {held}"));
    head(&mut out, "bb_connections", "gauge", "Open connections.");
    for ((_, protocol), n) in PROTOCOLS.iter().zip(&server.connections) {
        let n = n.load(Ordering::Relaxed);
        line(&mut out, format_args!("bb_connections{{protocol=\"{protocol}\"}} {n}"));
    }
    let help =
        "Connections that gave way to others, whose peers took nothing, or that were more than there may be.";
    head(&mut out, "bb_connections_closed_total", "counter", help);
    for ((_, protocol), row) in PROTOCOLS.iter().zip(&server.closed) {
        for ((_, reason), n) in CLOSED.iter().zip(row) {
            let (name, n) = ("bb_connections_closed_total", n.load(Ordering::Relaxed));
            line(&mut out, format_args!("{name}{{protocol=\"{protocol}\",reason=\"{reason}\"}} {n}"));
        }
    }
    head(
        &mut out,
        "bb_log_lines_lost_total",
        "counter",
        "Lines of the log that could not be written in time.",
    );
    line(&mut out, format_args!("bb_log_lines_lost_total {}", server.lost_lines.load(Ordering::Relaxed)));
    out
}

/// Writes the counters of language models.
#[cfg(feature = "generate")]
pub(crate) fn language_text(models: &[std::sync::Arc<crate::language::Language>]) -> String {
    let mut out = String::new();
    if models.is_empty() {
        return out;
    }
    let head = |out: &mut String, name: &str, kind: &str, help: &str| {
        line(out, format_args!("# HELP {name} {help}"));
        line(out, format_args!("# TYPE {name} {kind}"));
    };
    let name = "bb_generation_requests_total";
    head(&mut out, name, "counter", "Requests of OpenAI's interface by language model and outcome.");
    for model in models {
        model.metrics.requests.write(&mut out, name, &format!("model=\"{}\",", model.name));
    }
    let name = "bb_generation_seconds";
    head(&mut out, name, "histogram", "Time from the start of a request to the end of its answer.");
    for model in models {
        model.metrics.took.write(&mut out, name, &format!("model=\"{}\"", model.name));
    }
    let name = "bb_generation_tokens_total";
    head(
        &mut out,
        name,
        "counter",
        "Tokens: of prompts that were run, of prompts that had been run for others, and of answers.",
    );
    for model in models {
        let of = model.statistics();
        for (kind, count) in
            [("prompt", of.prompt_tokens), ("reused", of.reused_tokens), ("answer", of.answer_tokens)]
        {
            line(&mut out, format_args!("{name}{{model=\"{}\",kind=\"{kind}\"}} {count}", model.name));
        }
    }
    let name = "bb_generation_sequences";
    head(&mut out, name, "gauge", "Answers that are generated, and requests that wait.");
    for model in models {
        let of = model.statistics();
        for (state, count) in [("running", of.running), ("waiting", of.waiting)] {
            line(&mut out, format_args!("{name}{{model=\"{}\",state=\"{state}\"}} {count}", model.name));
        }
    }
    type Shown = (&'static str, &'static str, &'static str, fn(&bb_generate::EngineStatistics) -> u64);
    let shown: [Shown; 3] = [
        ("bb_generation_cache_bytes", "gauge", "Bytes of keys and values that answers use.", |of| {
            of.bytes as u64
        }),
        ("bb_generation_steps_total", "counter", "Steps, each of which runs tokens of all answers.", |of| {
            of.steps
        }),
        (
            "bb_generation_evictions_total",
            "counter",
            "Answers that gave their memory to others for a time.",
            |of| of.evictions,
        ),
    ];
    for (name, kind, help, of) in shown {
        head(&mut out, name, kind, help);
        for model in models {
            line(&mut out, format_args!("{name}{{model=\"{}\"}} {}", model.name, of(&model.statistics())));
        }
    }
    out
}
