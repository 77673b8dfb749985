//! Places the boxes of a picture. The boxes of a frame stay together.

use super::layout::{Anchor, HEIGHT, Layout, Point, Problem, Size, place};
use super::{Picture, svg};
use std::collections::HashMap;

/// The distance between a frame and its content.
const PAD: f64 = 14.0;
/// The height of the title of a frame.
pub(super) const TITLE: f64 = 22.0;

/// The positions of the boxes, edges and frames of a picture.
pub(super) struct Arranged {
    /// For each box, the middle of its upper edge.
    pub(super) boxes: Vec<Point>,
    /// For each edge, its points from the bottom of its source to the top of its target.
    pub(super) edges: Vec<Vec<Point>>,
    pub(super) frames: Vec<Area>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A rectangle; `x` and `y` are its upper left corner.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The layout inside a frame.
struct Inside {
    layout: Layout,
    /// For each source outside the frame, the box that represents it at the top.
    entries: HashMap<usize, usize>,
    /// For each source inside the frame that is read outside, the box at the bottom that represents all its outside readers.
    exits: HashMap<usize, usize>,
    /// For each edge of the picture inside the frame, the edge of the inner layout.
    edges: HashMap<usize, usize>,
    /// For each source inside the frame that is read outside, the edge to its box in `exits`.
    leaving: HashMap<usize, usize>,
}

/// Computes all positions.
pub(super) fn arrange(picture: &Picture) -> Arranged {
    let owner: Vec<Option<usize>> = (0..picture.boxes.len())
        .map(|at| picture.frames.iter().position(|frame| frame.boxes.contains(&at)))
        .collect();
    let owner_of = |at: usize| owner.get(at).copied().flatten();
    let insides: Vec<Inside> = (0..picture.frames.len()).map(|frame| inside(picture, frame)).collect();
    let (outer, sizes) = outside(picture, &insides, &owner_of);
    let outer_of = |at: usize| outer.get(&at).copied().unwrap_or(0);
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    let mut edges = Vec::new();
    for (number, edge) in picture.edges.iter().enumerate() {
        if owner_of(edge.from).is_none() || owner_of(edge.from) != owner_of(edge.to) {
            numbers.insert(number, edges.len());
            edges.push((outer_of(edge.from), outer_of(edge.to)));
        }
    }
    let layout = place(&Problem { boxes: sizes.clone(), edges });
    let outer_at = |at: usize| layout.boxes.get(outer_of(at)).copied().unwrap_or(Point { x: 0.0, y: 0.0 });
    // The upper left corner of each frame's content.
    let corners: Vec<Point> = picture
        .frames
        .iter()
        .zip(&insides)
        .map(|(frame, inside)| {
            let at = outer_at(frame.boxes.start);
            Point { x: at.x - inside.layout.width / 2.0, y: at.y + TITLE + PAD }
        })
        .collect();
    let within = |frame: usize, point: Point| {
        let corner = corners.get(frame).copied().unwrap_or(point);
        Point { x: corner.x + point.x, y: corner.y + point.y }
    };
    let boxes: Vec<Point> = (0..picture.boxes.len())
        .map(|at| {
            match owner_of(at)
                .and_then(|frame| Some((frame, picture.frames.get(frame)?, insides.get(frame)?)))
            {
                Some((number, frame, inside)) => {
                    let point =
                        inside.layout.boxes.get(inside.entries.len() + at - frame.boxes.start).copied();
                    within(number, point.unwrap_or(Point { x: 0.0, y: 0.0 }))
                }
                None => outer_at(at),
            }
        })
        .collect();
    let at = |of: usize| boxes.get(of).copied().unwrap_or(Point { x: 0.0, y: 0.0 });
    let edges = picture.edges.iter().enumerate().map(|(number, edge)| {
        let start = at(edge.from);
        let mut points = vec![Point { y: start.y + HEIGHT, ..start }];
        let bends = |frame: usize, edge: usize| -> Vec<Point> {
            let bends = insides.get(frame).and_then(|inside| inside.layout.bends.get(edge));
            bends.into_iter().flatten().map(|&point| within(frame, point)).collect()
        };
        let Some(crossing) = numbers.get(&number) else {
            let frame = owner_of(edge.from).unwrap_or(0);
            let own = insides.get(frame).and_then(|inside| inside.edges.get(&number));
            points.extend(own.map(|own| bends(frame, *own)).unwrap_or_default());
            points.push(at(edge.to));
            return points;
        };
        if let Some((frame, inside)) =
            owner_of(edge.from).and_then(|frame| Some((frame, insides.get(frame)?)))
        {
            points.extend(
                inside.leaving.get(&edge.from).map(|leaving| bends(frame, *leaving)).unwrap_or_default(),
            );
            let exit = inside.exits.get(&edge.from).and_then(|exit| inside.layout.boxes.get(*exit));
            points.extend(exit.map(|exit| within(frame, Point { y: exit.y + PAD, ..*exit })));
        }
        points.extend(layout.bends.get(*crossing).into_iter().flatten().copied());
        if let Some((frame, inside)) = owner_of(edge.to).and_then(|frame| Some((frame, insides.get(frame)?)))
        {
            let entry = inside.entries.get(&edge.from).and_then(|entry| inside.layout.boxes.get(*entry));
            points.extend(entry.map(|entry| within(frame, Point { y: entry.y - TITLE - PAD, ..*entry })));
            points.extend(entry.map(|entry| within(frame, *entry)));
            let own = inside.edges.get(&number);
            points.extend(own.map(|own| bends(frame, *own)).unwrap_or_default());
        }
        points.push(at(edge.to));
        points
    });
    let edges = edges.collect();
    let frames = picture.frames.iter().filter_map(|frame| {
        let (at, size) = (outer_at(frame.boxes.start), sizes.get(outer_of(frame.boxes.start))?);
        Some(Area { x: at.x - size.width / 2.0, y: at.y, width: size.width, height: size.height })
    });
    Arranged { edges, frames: frames.collect(), width: layout.width, height: layout.height, boxes }
}

/// Returns the boxes of the outer layout and their sizes, and for each box of the picture its index there. A frame is one box, at the index
/// of its first box.
fn outside(
    picture: &Picture,
    insides: &[Inside],
    owner_of: &impl Fn(usize) -> Option<usize>,
) -> (HashMap<usize, usize>, Vec<Size>) {
    let mut outer: HashMap<usize, usize> = HashMap::new();
    let mut sizes: Vec<Size> = Vec::new();
    for (at, drawn) in picture.boxes.iter().enumerate() {
        let size =
            match owner_of(at).and_then(|frame| Some((picture.frames.get(frame)?, insides.get(frame)?))) {
                None => Size { width: svg::width(drawn), height: HEIGHT, anchor: Anchor::Free },
                Some((frame, inside)) if frame.boxes.start == at => Size {
                    width: inside.layout.width.max(svg::frame_width(frame)) + 2.0 * PAD,
                    height: inside.layout.height + TITLE + 2.0 * PAD,
                    anchor: Anchor::Free,
                },
                Some((frame, _)) => {
                    let first = outer.get(&frame.boxes.start).copied().unwrap_or(0);
                    outer.insert(at, first);
                    continue;
                }
            };
        outer.insert(at, sizes.len());
        sizes.push(size);
    }
    (outer, sizes)
}

/// Places the content of a frame. Each outside source has a point at the top, and each box that is read outside has a point at the bottom.
fn inside(picture: &Picture, number: usize) -> Inside {
    let Some(frame) = picture.frames.get(number) else {
        let layout = place(&Problem { boxes: Vec::new(), edges: Vec::new() });
        let none = HashMap::new;
        return Inside { layout, entries: none(), exits: none(), edges: none(), leaving: none() };
    };
    let port = |anchor| Size { width: 4.0, height: 0.0, anchor };
    let own = |at: usize| at.checked_sub(frame.boxes.start).filter(|_| frame.boxes.contains(&at));
    // The points at the top come first, because all edges must go forwards.
    let mut entries = HashMap::new();
    for edge in picture.edges.iter().filter(|edge| own(edge.from).is_none() && own(edge.to).is_some()) {
        let next = entries.len();
        entries.entry(edge.from).or_insert(next);
    }
    let first = entries.len();
    let drawn = picture.boxes.iter().take(frame.boxes.end).skip(frame.boxes.start);
    let mut boxes = vec![port(Anchor::Top); first];
    boxes.extend(drawn.map(|drawn| Size { width: svg::width(drawn), height: HEIGHT, anchor: Anchor::Free }));
    let (mut exits, mut leaving) = (HashMap::new(), HashMap::new());
    let (mut edges, mut numbers) = (Vec::new(), HashMap::new());
    for (at, edge) in picture.edges.iter().enumerate() {
        match (own(edge.from), own(edge.to)) {
            (from, Some(to)) => {
                let entry = entries.get(&edge.from).copied();
                let Some(from) = from.map(|from| first + from).or(entry) else { continue };
                numbers.insert(at, edges.len());
                edges.push((from, first + to));
            }
            (Some(from), None) if !exits.contains_key(&edge.from) => {
                exits.insert(edge.from, boxes.len());
                leaving.insert(edge.from, edges.len());
                edges.push((first + from, boxes.len()));
                boxes.push(port(Anchor::Bottom));
            }
            (_, None) => {}
        }
    }
    Inside { layout: place(&Problem { boxes, edges }), entries, exits, edges: numbers, leaving }
}
