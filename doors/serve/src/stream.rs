//! The byte stream of a connection, which records how fast its peer reads.

use crate::connections::Connection;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// The time that a peer which sends no more bytes still has to read its answer, counted from the end of its bytes or from the last write to
/// the peer. A peer that closed the whole connection looks the same until something is written.
const HALF_CLOSED: Duration = Duration::from_secs(2);

/// A stream of a connection.
pub(crate) struct Stream {
    tcp: TcpStream,
    connection: Arc<Connection>,
    /// Whether a peer may close its sending side and still get its answer.
    half_closes: bool,
    /// A timer that is set once the peer sends no more bytes. The end of the stream is reported when the timer expires.
    ended: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    pub(crate) fn new(tcp: TcpStream, connection: Arc<Connection>, half_closes: bool) -> Stream {
        Stream { tcp, connection, half_closes, ended: None }
    }

    /// Reports the end of the stream, with a delay while a request of the peer is not answered completely.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.half_closes || !self.connection.is_in_request() {
            return Poll::Ready(Ok(()));
        }
        let ended = self.ended.get_or_insert_with(|| Box::pin(sleep(HALF_CLOSED)));
        ended.as_mut().poll(context).map(Ok)
    }

    fn note(&mut self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Pending => self.connection.blocked(),
            Poll::Ready(Ok(bytes)) => {
                self.connection.wrote(*bytes);
                if let Some(ended) = &mut self.ended {
                    ended.as_mut().reset(Instant::now() + HALF_CLOSED);
                }
            }
            Poll::Ready(Err(_)) => {}
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ended.is_some() {
            return self.poll_end(context);
        }
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.tcp).poll_read(context, buffer))?;
        if buffer.filled().len() == before && buffer.remaining() > 0 {
            return self.poll_end(context);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(context, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(context, parts);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    /// Records that all bytes are written, because protocols call this when they have nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.tcp).poll_flush(context);
        if flushed.is_ready() {
            self.connection.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
