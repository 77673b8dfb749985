//! Writes the picture as a self-contained HTML page. It can be moved with the pointer, zoomed with the wheel, and searched.

use super::{Picture, svg};

/// The script that moves and zooms the picture by changing its view box, and handles the buttons.
const SCRIPT: &str = r#"
const pictures = [...document.querySelectorAll('main > svg')];
const state = pictures.map((svg) => {
  const whole = svg.viewBox.baseVal, full = { x: whole.x, y: whole.y, w: whole.width, h: whole.height };
  svg.removeAttribute('width'); svg.removeAttribute('height');
  return { svg, full, view: null };
});
let shown = state[0];
const show = () => {
  for (const { svg } of state) svg.style.display = svg === shown.svg ? 'block' : 'none';
  const { view } = shown;
  shown.svg.setAttribute('viewBox', `${view.x} ${view.y} ${view.w} ${view.h}`);
};
const fit = (all) => {
  const { full } = shown, ratio = innerWidth / innerHeight;
  let w = Math.max(full.w, full.h * ratio);
  if (!all) w = Math.min(w, Math.max(full.w, innerWidth));
  shown.view = { w, h: w / ratio, x: full.x + (full.w - w) / 2, y: full.y };
  show();
};
const zoom = (factor, x, y) => {
  const { view, full } = shown;
  const w = Math.min(Math.max(view.w * factor, 50), 8 * Math.max(full.w, full.h));
  const k = w / view.w;
  shown.view = { x: view.x + x * view.w * (1 - k), y: view.y + y * view.h * (1 - k), w, h: view.h * k };
  show();
};
let held = null;
for (const { svg } of state) {
  svg.addEventListener('wheel', (e) => {
    e.preventDefault();
    zoom(Math.pow(1.0015, e.deltaY), e.clientX / innerWidth, e.clientY / innerHeight);
  }, { passive: false });
  svg.addEventListener('pointerdown', (e) => { held = e; svg.setPointerCapture(e.pointerId); });
  svg.addEventListener('pointermove', (e) => {
    if (!held) return;
    const { view } = shown;
    view.x -= (e.clientX - held.clientX) * view.w / innerWidth;
    view.y -= (e.clientY - held.clientY) * view.h / innerHeight;
    held = e; show();
  });
  svg.addEventListener('pointerup', () => { held = null; });
}
const find = document.querySelector('#find'), count = document.querySelector('#count');
let hits = [], hit = 0;
const go = () => {
  const of = shown.svg.querySelector('.hit.now');
  if (of) of.classList.remove('now');
  count.textContent = find.value ? `${hits.length ? hit + 1 : 0} of ${hits.length}` : '';
  if (!hits.length) return;
  hits[hit].classList.add('now');
  const box = hits[hit].getBBox(), at = hits[hit].parentNode.transform.baseVal.consolidate().matrix;
  shown.view.x = box.x + at.e + box.width / 2 - shown.view.w / 2;
  shown.view.y = box.y + at.f + box.height / 2 - shown.view.h / 2;
  show();
};
const search = () => {
  for (const of of document.querySelectorAll('.hit')) of.classList.remove('hit', 'now');
  const words = find.value.toLowerCase();
  hits = words ? [...shown.svg.querySelectorAll('.n')].filter((n) => n.textContent.toLowerCase().includes(words)) : [];
  for (const of of hits) of.classList.add('hit');
  hit = 0;
  go();
};
find.addEventListener('input', search);
find.addEventListener('keydown', (e) => {
  e.stopPropagation();
  if (e.key === 'Enter' && hits.length) { hit = (hit + (e.shiftKey ? hits.length - 1 : 1)) % hits.length; go(); }
  if (e.key === 'Escape') { find.value = ''; search(); find.blur(); }
});
const press = (id, act) => document.querySelector(id)?.addEventListener('click', act);
press('#fold', (e) => {
  shown = state[(state.indexOf(shown) + 1) % state.length];
  e.target.textContent = e.target.dataset[shown === state[0] ? 'first' : 'second'];
  if (!shown.view) fit(false); else show();
  search();
});
press('#colours', (e) => {
  const time = document.body.classList.toggle('coverage');
  e.target.textContent = e.target.dataset[time ? 'second' : 'first'];
  for (const rect of document.querySelectorAll('[data-coverage]')) {
    const fill = rect.getAttribute('fill');
    rect.setAttribute('fill', rect.dataset.coverage);
    rect.dataset.coverage = fill;
  }
});
press('#all', () => fit(true));
addEventListener('keydown', (e) => {
  if (e.key === '+' || e.key === '=') zoom(0.8, 0.5, 0.5);
  if (e.key === '-') zoom(1.25, 0.5, 0.5);
  if (e.key === '0') fit(true);
  if (e.key === '/') { e.preventDefault(); find.focus(); }
});
addEventListener('resize', () => fit(false));
fit(false);
"#;

const STYLE: &str = "html,body{margin:0;height:100%;overflow:hidden;background:#fff}\
main>svg{display:none;width:100vw;height:100vh;cursor:grab;touch-action:none}\
nav{position:fixed;right:12px;top:10px;display:flex;gap:6px;align-items:center;font:12px Helvetica,Arial,sans-serif;color:#445;\
background:#fffd;padding:6px;border:1px solid #ccd;border-radius:6px}\
nav button,nav input{font:inherit;padding:3px 8px;border:1px solid #aab;border-radius:4px;background:#fff}\
.hit .b{stroke:#7a3ff2;stroke-width:2}.hit.now .b{stroke-width:4}\
.coverage .legend.coverage{display:inline}.coverage .legend.time{display:none}\
p{position:fixed;right:12px;bottom:6px;margin:0;font:12px Helvetica,Arial,sans-serif;color:#667}";

/// Returns the page. If there are repeated blocks, it shows first the folded picture, then the whole one.
pub(super) fn text(whole: &Picture, folded: Option<&Picture>) -> String {
    let title = svg::escaped(&whole.title);
    let pictures: Vec<String> = folded.into_iter().chain([whole]).map(svg::text).collect();
    let mut buttons = String::new();
    if folded.is_some() {
        buttons.push_str(
            r#"<button id="fold" data-first="draw repeated blocks each time" data-second="draw repeated blocks once">draw repeated blocks each time</button>"#,
        );
    }
    if whole.run.is_some() {
        buttons.push_str(
            r#"<button id="colours" data-first="colour by what runs it" data-second="colour by time">colour by what runs it</button>"#,
        );
    }
    // The content security policy allows only the script below, so names in the model cannot inject scripts.
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-bb'">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<main>{}</main>
<nav>{buttons}<button id="all">show all</button><input id="find" type="search" placeholder="find a node" aria-label="find a node"><span id="count"></span></nav>
<p>drag to move, turn the wheel to enlarge, / to find, 0 for the whole</p>
<script nonce="bb">{SCRIPT}</script>
</body>
</html>
"#,
        pictures.join("\n")
    )
}
