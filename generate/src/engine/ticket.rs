//! Tickets receive the events of a request, for callers without their own listener.

use super::{Event, Listener};
use crate::{Error, Piece};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// The result of polling a ticket.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Received {
    /// The next event.
    Event(Event),
    /// No event yet.
    Nothing,
    /// No further events.
    Ended,
}

/// A request of an engine. Dropping it ends the request at the next step.
#[derive(Debug)]
pub struct Ticket {
    events: Receiver<Event>,
    gone: Arc<AtomicBool>,
}

struct Sending {
    to: Sender<Event>,
    gone: Arc<AtomicBool>,
}

pub(super) fn pair() -> (Ticket, impl Listener) {
    let (to, events) = channel();
    let gone = Arc::new(AtomicBool::new(false));
    (Ticket { events, gone: gone.clone() }, Sending { to, gone })
}

impl Listener for Sending {
    fn receive(&mut self, event: Event) {
        // Ignore the error if the receiver was dropped.
        let _gone = self.to.send(event);
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

impl Ticket {
    /// Returns the next event, if there is one.
    pub fn try_next(&mut self) -> Received {
        match self.events.try_recv() {
            Ok(event) => Received::Event(event),
            Err(TryRecvError::Empty) => Received::Nothing,
            Err(TryRecvError::Disconnected) => Received::Ended,
        }
    }

    /// Returns the pieces that have been generated since the last call.
    ///
    /// # Errors
    ///
    /// The error that ended the request.
    pub fn pieces(&mut self) -> Result<Vec<Piece>, Arc<Error>> {
        let mut pieces = Vec::new();
        while let Received::Event(event) = self.try_next() {
            match event {
                Event::Piece(piece) => pieces.push(piece),
                Event::Failed(error) => return Err(error),
                Event::Prompt { .. } | Event::Embedding(_) => {}
            }
        }
        Ok(pieces)
    }

    /// Returns the text that has been generated since the last call.
    ///
    /// # Errors
    ///
    /// The error that ended the request.
    pub fn text(&mut self) -> Result<String, Arc<Error>> {
        Ok(self.pieces()?.into_iter().map(|piece| piece.text).collect())
    }
}
