//! Writes a profile as a self-contained HTML page: the time by operator and by node, a roofline, and the graph.

use super::peak::Peaks;
use super::profile::{Group, Summary};
use super::roofline::{self, Kernel};
use crate::error::{Error, Result};
use crate::graph::{self, escaped, shortened};
use crate::render;
use std::fmt::Write;
use std::path::Path;

/// The maximum number of nodes in the table, so that browsers can display it.
const NODES: usize = 5000;

/// The maximum number of characters of a node's name in the table. The tooltip has the whole name.
const NAME: usize = 72;

/// The script that sorts and filters the table of nodes.
const SCRIPT: &str = r#"
const table = document.querySelector('#nodes'), body = table.tBodies[0];
const value = (row, at) => row.cells[at].dataset.v || row.cells[at].title || row.cells[at].textContent;
for (const [at, head] of [...table.tHead.rows[0].cells].entries()) {
  head.querySelector('button').addEventListener('click', () => {
    const down = head.getAttribute('aria-sort') !== 'descending';
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a, at), value(b, at)], [p, q] = [Number(x), Number(y)];
      const order = Number.isNaN(p) || Number.isNaN(q) ? x.localeCompare(y) : p - q;
      return down ? -order : order;
    });
    body.append(...rows);
  });
}
document.querySelector('#filter').addEventListener('input', (e) => {
  const words = e.target.value.toLowerCase();
  for (const row of body.rows) row.hidden = !`${row.cells[0].title} ${row.textContent}`.toLowerCase().includes(words);
});
"#;

const STYLE: &str = "\
body{margin:0 auto;max-width:1080px;padding:24px;font:14px/1.45 Helvetica,Arial,sans-serif;color:#1b1f2a;background:#fff}\
h1{font-size:22px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:17px;margin:32px 0 8px}p{margin:4px 0 10px;color:#445}\
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:16px 0}\
dl div{border:1px solid #dde0e8;border-radius:6px;padding:8px 10px}dt{color:#667;font-size:12px}dd{margin:0;font-size:16px}\
table{border-collapse:collapse;width:100%}td,th{padding:3px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid #eceef3;font-variant-numeric:tabular-nums}\
td:first-child,th:first-child,td.left,th.left{text-align:left}td:first-child{white-space:normal;overflow-wrap:anywhere}th{position:sticky;top:0;background:#fff}\
th button{font:inherit;font-weight:600;border:0;background:none;padding:0;cursor:pointer;color:inherit}\
th[aria-sort=ascending] button::after{content:' ▲'}th[aria-sort=descending] button::after{content:' ▼'}\
.bar{background:#4a78c2;display:inline-block;height:11px;border-radius:2px;vertical-align:-1px;min-width:1px}td.bars{width:34%;text-align:left}\
input{font:inherit;padding:4px 8px;border:1px solid #aab;border-radius:4px;margin-bottom:8px}\
.wide{overflow:auto;border:1px solid #dde0e8;border-radius:6px;max-height:85vh}svg{max-width:none}.roof svg{width:100%;height:auto}\
.key{margin-right:14px;white-space:nowrap}.key span{display:inline-block;width:11px;height:11px;border-radius:6px;margin-right:5px}";

/// The contents of a page in addition to the profile.
pub(super) struct About<'a> {
    pub(super) model: &'a str,
    /// The facts about the run, as pairs of names and values, for example `backend` and `cpu`.
    pub(super) facts: Vec<(&'a str, String)>,
    /// The graph as SVG.
    pub(super) graph: String,
}

/// Writes the page.
pub(super) fn write(
    path: &Path,
    about: &About<'_>,
    summary: &Summary,
    kernels: &[Kernel],
    peaks: &Peaks,
) -> Result<()> {
    let text = page(about, summary, kernels, peaks);
    std::fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn page(about: &About<'_>, summary: &Summary, kernels: &[Kernel], peaks: &Peaks) -> String {
    let title = escaped(about.model);
    let facts: String = about
        .facts
        .iter()
        .map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value)))
        .collect();
    let roofline = roofline::svg(kernels, peaks).unwrap_or_else(|| {
        "<p>There is no formula for the operations and bytes of any instruction of this model.</p>".to_owned()
    });
    let legend = roofline::legend(kernels);
    let (operators, nodes, graph) = (operators(summary), nodes(summary, peaks), &about.graph);
    // The content security policy allows only the script below, so names in the model cannot inject scripts.
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-bb'">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<dl>{facts}</dl>
<h2>By operator</h2>
{operators}
<h2>Beside what the backend can do</h2>
<p>Each circle is an instruction; its area is its share of the time. The solid line is the most that was measured of this backend
with data in memory, the dashed line with data in caches. A kernel below the slope waits for bytes, one below the flat part for
arithmetic. Products of integers may pass the line of f32.</p>
<div class="roof">{roofline}</div>
<p>{legend}</p>
<h2>By node</h2>
{nodes}
<h2>In the graph</h2>
<p>Blocks that repeat are drawn once, with the time of all.</p>
<div class="wide">{graph}</div>
<script nonce="bb">{SCRIPT}</script>
</body>
</html>
"#
    )
}

fn operators(summary: &Summary) -> String {
    let mut text = "<table><thead><tr><th>operator</th><th class=\"left\">share</th><th></th><th>time</th><th>calls</th><th>GFLOP/s</th><th>GB/s</th></tr></thead><tbody>\n".to_owned();
    let most = summary
        .operators
        .first()
        .map_or(0.0, |group| summary.share(group.time))
        .max(summary.share(summary.outside));
    let mut row = |name: &str, share: f64, [calls, time, shown, flops, bytes]: [&str; 5]| {
        let width = if most > 0.0 { 100.0 * share / most } else { 0.0 };
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            r#"<tr><td>{}</td><td class="bars"><span class="bar" style="width:{width:.1}%"></span></td><td>{shown}</td><td>{time}</td><td>{calls}</td><td>{flops}</td><td>{bytes}</td></tr>"#,
            escaped(name),
        );
    };
    for group in &summary.operators {
        let figures = summary.figures(group);
        row(&group.name, summary.share(group.time), figures.each_ref().map(String::as_str));
    }
    let (time, share) = summary.time(summary.outside);
    row("outside of nodes", summary.share(summary.outside), ["", &time, &share, "", ""]);
    text.push_str("</tbody></table>");
    text
}

fn nodes(summary: &Summary, peaks: &Peaks) -> String {
    let heads = [
        ("node", ""),
        ("runs as", "left"),
        ("calls", ""),
        ("time", ""),
        ("share", ""),
        ("GFLOP/s", ""),
        ("GB/s", ""),
        ("of the roof", ""),
    ];
    let heads: String = heads
        .iter()
        .map(|(head, class)| format!(r#"<th class="{class}"><button>{head}</button></th>"#))
        .collect();
    let mut text = format!(
        r#"<input id="filter" type="search" placeholder="filter" aria-label="filter the nodes"><table id="nodes"><thead><tr>{heads}</tr></thead><tbody>
"#
    );
    for group in summary.nodes.iter().take(NODES) {
        text.push_str(&node(summary, group, peaks));
    }
    text.push_str("</tbody></table>");
    if summary.nodes.len() > NODES {
        text.push_str(&format!("<p>{} more take less time than these.</p>", summary.nodes.len() - NODES));
    }
    text
}

fn node(summary: &Summary, group: &Group, peaks: &Peaks) -> String {
    let [calls, time, share, flops, bytes] = summary.figures(group);
    let seconds = group.time.as_secs_f64();
    let per_second =
        |amount: Option<u64>| amount.filter(|_| seconds > 0.0).map_or(-1.0, |n| n as f64 / seconds);
    let roof = match (group.cost.flops, group.cost.bytes()) {
        (Some(flops), Some(bytes)) if flops > 0 && bytes > 0 && seconds > 0.0 => {
            Some(100.0 * flops as f64 / seconds / peaks.roof(flops as f64 / bytes as f64))
        }
        _ => None,
    };
    let shown = roof.map_or_else(|| "-".to_owned(), |roof| format!("{roof:.0} %"));
    format!(
        r#"<tr><td title="{}">{}</td><td class="left">{}</td><td data-v="{}">{calls}</td><td data-v="{seconds:e}">{time}</td><td data-v="{seconds:e}">{share}</td><td data-v="{:e}">{flops}</td><td data-v="{:e}">{bytes}</td><td data-v="{}">{shown}</td></tr>
"#,
        escaped(&group.name),
        escaped(&shortened(&group.name, NAME)),
        escaped(&group.what),
        group.calls,
        per_second(group.cost.flops),
        per_second(group.cost.bytes()),
        roof.unwrap_or(-1.0),
    )
}

/// Draws the graph as SVG.
pub(super) fn graph(module: &bb::Module, backend: &bb::BackendHandle, times: &graph::Times) -> String {
    graph::with_times(module, &bb::coverage::Coverage::of(module, backend.runtime()), times)
}

/// Lists the facts about a run.
pub(super) fn facts<'a>(
    backend: &str,
    extents: &str,
    times: &super::Times,
    load: f64,
    prepare: f64,
    peak: Option<u64>,
) -> Vec<(&'a str, String)> {
    let mut facts = vec![
        ("backend", backend.to_owned()),
        ("a run, half of the time", render::duration(times.percentile(50))),
        ("a run, 9 of 10 times", render::duration(times.percentile(90))),
        ("timed runs", times.count().to_string()),
        ("load", render::duration(load)),
        ("prepare and first run", render::duration(prepare)),
    ];
    if let Some(bytes) = peak {
        facts.push(("memory at most", render::bytes(bytes)));
    }
    if !extents.is_empty() {
        facts.push(("extents", extents.to_owned()));
    }
    facts
}
