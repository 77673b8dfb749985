//! A stream whose first bytes were already read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// A stream whose first bytes were read to check that the peer sends any. Reading it returns those bytes first.
pub(crate) struct Begun<S, const N: usize> {
    first: [u8; N],
    given: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin, const N: usize> Begun<S, N> {
    /// Waits for the first bytes of a stream. Returns `None` if the stream ends before.
    pub(crate) async fn read(mut stream: S) -> Option<Begun<S, N>> {
        let mut first = [0; N];
        stream.read_exact(&mut first).await.ok()?;
        Some(Begun { first, given: 0, stream })
    }
}

impl<S: AsyncRead + Unpin, const N: usize> AsyncRead for Begun<S, N> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let first = this.first.get(this.given..).unwrap_or_default();
        if first.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        let taken = first.len().min(buffer.remaining());
        buffer.put_slice(first.get(..taken).unwrap_or_default());
        this.given += taken;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, const N: usize> AsyncWrite for Begun<S, N> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
