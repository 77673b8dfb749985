//! Draws consecutive repeated blocks only once.

use super::repeat::{self, Repeat};
use super::{Drawn, Edge, Frame, Kind, Picture, times};
use std::collections::{HashMap, HashSet};

/// The maximum number of values that are named in the text of a frame.
const NAMED: usize = 8;

/// Returns the picture with each repeated block drawn once, in a frame.
pub(super) fn folded(whole: &Picture) -> Picture {
    let mut reads: Vec<Vec<usize>> = vec![Vec::new(); whole.boxes.len()];
    for edge in &whole.edges {
        if let Some(reads) = reads.get_mut(edge.to) {
            reads.push(edge.from);
        }
    }
    reads.iter_mut().for_each(|reads| {
        reads.sort_unstable();
        reads.dedup();
    });
    let looks: Vec<u64> = whole.boxes.iter().map(|drawn| drawn.looks).collect();
    let port = |drawn: &Drawn| matches!(drawn.kind, Kind::Input | Kind::Output);
    let first = whole.boxes.iter().take_while(|drawn| drawn.kind == Kind::Input).count();
    let nodes = whole.boxes.iter().skip(first).take_while(|drawn| !port(drawn)).count();
    let repeats = repeat::find(&repeat::Row { looks: &looks, reads: &reads, nodes: first..first + nodes });
    Folding { whole, reads, repeats }.picture()
}

struct Folding<'a> {
    whole: &'a Picture,
    /// The boxes that each box reads.
    reads: Vec<Vec<usize>>,
    repeats: Vec<Repeat>,
}

impl Folding<'_> {
    /// Returns the box that represents another box. For a node of a repeated block, this is the corresponding node of the first copy.
    fn stand_in(&self, at: usize) -> usize {
        let found = self.repeats.iter().find_map(|repeat| Some(repeat.start + repeat.place(at)?.1));
        found.unwrap_or(at)
    }

    fn is_port(&self, at: usize) -> bool {
        self.whole.boxes.get(at).is_some_and(|drawn| matches!(drawn.kind, Kind::Input | Kind::Output))
    }

    /// Finds the inputs and outputs that only later copies use. Maps each to the corresponding input or output of the first copy.
    fn ports(&self) -> HashMap<usize, usize> {
        let mut readers: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut outputs: HashMap<usize, usize> = HashMap::new();
        for (to, reads) in self.reads.iter().enumerate() {
            for &from in reads.iter().filter(|from| self.is_port(**from)) {
                readers.entry(from).or_default().push(to);
            }
            if let (true, [from]) = (self.is_port(to), reads.as_slice()) {
                outputs.entry(*from).or_insert(to);
            }
        }
        let mut ports = HashMap::new();
        for (&input, readers) in &readers {
            let later = readers.iter().all(|&reader| self.stand_in(reader) != reader);
            let Some(reader) = readers.first().filter(|_| later) else { continue };
            let inputs_of =
                |node: usize| self.reads.get(node).into_iter().flatten().filter(|from| self.is_port(**from));
            let place = inputs_of(*reader).position(|from| *from == input);
            if let Some(&other) = place.and_then(|place| inputs_of(self.stand_in(*reader)).nth(place)) {
                ports.insert(input, other);
            }
        }
        for (&from, &output) in &outputs {
            let stand_in = self.stand_in(from);
            if let Some(&other) = outputs.get(&stand_in).filter(|_| stand_in != from) {
                ports.insert(output, other);
            }
        }
        ports
    }

    fn picture(&self) -> Picture {
        let ports = self.ports();
        let stand_in = |at: usize| ports.get(&at).copied().unwrap_or_else(|| self.stand_in(at));
        let mut boxes: Vec<Drawn> = Vec::new();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for (at, drawn) in self.whole.boxes.iter().enumerate() {
            if stand_in(at) == at {
                places.insert(at, boxes.len());
                boxes.push(Drawn {
                    details: drawn.details.clone(),
                    title: drawn.title.clone(),
                    subtitle: drawn.subtitle.clone(),
                    ..*drawn
                });
            }
        }
        for (at, drawn) in self.whole.boxes.iter().enumerate().filter(|(at, _)| stand_in(*at) != *at) {
            let Some(other) = places.get(&stand_in(at)).and_then(|place| boxes.get_mut(*place)) else {
                continue;
            };
            if self.is_port(at) {
                other.details.push(format!("also {} {}", drawn.title, drawn.subtitle));
            }
            other.seconds = other.seconds.zip(drawn.seconds).map(|(one, more)| one + more);
        }
        let frames = self.repeats.iter().filter_map(|repeat| {
            let start = *places.get(&repeat.start)?;
            Some(self.frame(repeat, start))
        });
        let frames: Vec<Frame> = frames.collect();
        if let Some(run) = self.whole.run {
            for frame in &frames {
                for drawn in boxes.iter_mut().take(frame.boxes.end).skip(frame.boxes.start) {
                    let all = times::shown(drawn.seconds.unwrap_or(0.0), run);
                    drawn.details.push(format!("all {} of this place take {all}", frame.copies));
                }
            }
        }
        let mut seen = HashSet::new();
        let mut edges = Vec::new();
        for edge in &self.whole.edges {
            // Edges to later copies are omitted, because the first copy represents them.
            let port = self.is_port(edge.to);
            let Some(&to) = places.get(&edge.to).filter(|_| port || stand_in(edge.to) == edge.to) else {
                continue;
            };
            let Some(&from) = places.get(&stand_in(edge.from)) else { continue };
            // If a copy reads results of the previous copy, the edge would form a cycle, so it is omitted.
            if from < to && seen.insert((from, to, edge.details.clone())) {
                edges.push(Edge { from, to, details: edge.details.clone() });
            }
        }
        Picture { title: self.whole.title.clone(), boxes, edges, frames, run: self.whole.run }
    }

    fn frame(&self, repeat: &Repeat, start: usize) -> Frame {
        let name = |at: usize| self.whole.boxes.get(at).map_or("", |drawn| drawn.subtitle.as_str());
        let last = repeat.start + repeat.length * (repeat.copies - 1);
        let mut details = vec![
            format!("this block of {} nodes follows itself {} times", repeat.length, repeat.copies),
            format!("the first begins with {}, the last with {}", name(repeat.start), name(last)),
        ];
        let seconds: Option<f64> = self
            .whole
            .boxes
            .iter()
            .take(repeat.all().end)
            .skip(repeat.start)
            .map(|drawn| drawn.seconds)
            .sum();
        if let (Some(seconds), Some(run)) = (seconds, self.whole.run) {
            details.push(format!("all together take {}", times::shown(seconds, run)));
        }
        let passes = |edge: &&Edge| {
            let copy = |at: usize| repeat.place(at).map(|(copy, _)| copy);
            copy(edge.from) == Some(0) && copy(edge.to) == Some(1)
        };
        let mut passed: Vec<&str> =
            self.whole.edges.iter().filter(passes).map(|edge| edge.details.as_str()).collect();
        passed.dedup();
        details.extend(passed.iter().take(NAMED).map(|value| format!("passes {value} to the next")));
        if passed.len() > NAMED {
            details.push(format!("and {} more", passed.len() - NAMED));
        }
        Frame { boxes: start..start + repeat.length, copies: repeat.copies, details }
    }
}
