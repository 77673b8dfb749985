//! Writes the picture as a self-contained page with an SVG that can be moved with the pointer and zoomed with
//! the wheel.

use super::{Picture, svg};

/// The script that moves and zooms the picture through its view box; it shows the whole picture first.
const SCRIPT: &str = r#"
const svg = document.querySelector('svg');
const whole = svg.viewBox.baseVal, full = { x: whole.x, y: whole.y, w: whole.width, h: whole.height };
svg.removeAttribute('width'); svg.removeAttribute('height');
let view = null;
const show = () => svg.setAttribute('viewBox', `${view.x} ${view.y} ${view.w} ${view.h}`);
const fit = (all) => {
  const ratio = innerWidth / innerHeight;
  let w = Math.max(full.w, full.h * ratio);
  if (!all) w = Math.min(w, Math.max(full.w, innerWidth));
  view = { w, h: w / ratio, x: full.x + (full.w - w) / 2, y: full.y };
  show();
};
const zoom = (factor, x, y) => {
  const w = Math.min(Math.max(view.w * factor, 50), 8 * Math.max(full.w, full.h));
  const k = w / view.w;
  view = { x: view.x + x * view.w * (1 - k), y: view.y + y * view.h * (1 - k), w, h: view.h * k };
  show();
};
svg.addEventListener('wheel', (e) => {
  e.preventDefault();
  zoom(Math.pow(1.0015, e.deltaY), e.clientX / innerWidth, e.clientY / innerHeight);
}, { passive: false });
let held = null;
svg.addEventListener('pointerdown', (e) => { held = e; svg.setPointerCapture(e.pointerId); });
svg.addEventListener('pointermove', (e) => {
  if (!held) return;
  view.x -= (e.clientX - held.clientX) * view.w / innerWidth;
  view.y -= (e.clientY - held.clientY) * view.h / innerHeight;
  held = e; show();
});
svg.addEventListener('pointerup', () => { held = null; });
addEventListener('keydown', (e) => {
  if (e.key === '+' || e.key === '=') zoom(0.8, 0.5, 0.5);
  if (e.key === '-') zoom(1.25, 0.5, 0.5);
  if (e.key === '0') fit(true);
});
addEventListener('resize', () => fit(false));
fit(false);
"#;

const STYLE: &str = "html,body{margin:0;height:100%;overflow:hidden;background:#fff}\
svg{display:block;width:100vw;height:100vh;cursor:grab;touch-action:none}\
p{position:fixed;right:12px;bottom:6px;margin:0;font:12px Helvetica,Arial,sans-serif;color:#667}";

/// Writes the page.
pub(super) fn text(picture: &Picture) -> String {
    let title = svg::escaped(&picture.title);
    let svg = svg::text(picture);
    // The content security policy only allows the script below, whatever the names in the model are.
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
{svg}<p>drag to move, turn the wheel to enlarge, 0 for the whole</p>
<script nonce="bb">{SCRIPT}</script>
</body>
</html>
"#
    )
}
