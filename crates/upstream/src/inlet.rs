//! A child's standard input. A message is written by whoever has it, at once, as long as the pipe takes it; what the
//! child is too slow for waits here, within bounds, for a task that writes it later. Nobody waits for somebody else's write:
//! who comes while another thread is at it leaves the message to that thread.

use crate::http_client::describe;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::process::ChildStdin;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Messages that may wait; more than there are places for calls.
const BACKLOG: usize = 512;
/// What may wait of one message: the rest of it, and the end of its line.
const PIECES: usize = 2;
/// Pieces that are written at once.
const TOGETHER: usize = 16;
/// How often a thread writes for others before it goes back to its own work.
const FOR_OTHERS: usize = 16;
/// Bytes that may wait.
const BACKLOG_BYTES: usize = 64 << 20;

pub(crate) struct Inlet {
    state: Mutex<State>,
    work: Notify,
}

struct State {
    /// `None` once the input is closed.
    pipe: Option<Arc<pipe::Sender>>,
    /// Rests of lines, in order, each with its end.
    backlog: VecDeque<Bytes>,
    bytes: usize,
    /// Somebody writes, and looks for more before they go.
    writing: bool,
}

impl Inlet {
    pub(crate) fn new(stdin: ChildStdin) -> io::Result<Inlet> {
        Ok(Inlet::of(pipe::Sender::from_owned_fd(stdin.into_owned_fd()?)?))
    }

    pub(crate) fn of(pipe: pipe::Sender) -> Inlet {
        let state = State { pipe: Some(Arc::new(pipe)), backlog: VecDeque::new(), bytes: 0, writing: false };
        Inlet { state: Mutex::new(state), work: Notify::new() }
    }

    /// Writes a message as one line, or keeps it to be written. `Err` says why it will never be.
    pub(crate) fn write(&self, message: &Bytes) -> Result<(), String> {
        let message = one_line(message);
        let mut state = self.state();
        let Some(pipe) = state.pipe.clone() else { return Err("its input is closed".into()) };
        if state.backlog.len() >= BACKLOG * PIECES || state.bytes + message.len() > BACKLOG_BYTES {
            return Err("it does not read what it is sent".into());
        }
        if state.writing || !state.backlog.is_empty() {
            state.keep(message);
            state.keep(Bytes::from_static(b"\n"));
            // Whoever writes looks here before they go, the task or another thread.
            return Ok(());
        }
        state.writing = true;
        drop(state);
        let written = pipe.try_write_vectored(&[IoSlice::new(&message), IoSlice::new(b"\n")]);
        let mut state = self.state();
        let written = match written {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => {
                state.writing = false;
                self.work.notify_one();
                return Err(format!("cannot write to the child: {}", describe(&error)));
            }
        };
        if written > message.len() {
            // An error is met again by the task, which has to tell why it ends.
            let _for_the_task = self.write_what_waits(state, &pipe);
        } else {
            state.keep_first([message.slice(written..), Bytes::from_static(b"\n")]);
            state.writing = false;
            self.work.notify_one();
        }
        Ok(())
    }

    /// Writes what waits, by whoever has said that they write, as long as the child takes the whole of it; the rest is for the task.
    fn write_what_waits<'a>(&'a self, mut state: MutexGuard<'a, State>, pipe: &pipe::Sender) -> io::Result<()> {
        let mut end = Ok(());
        for _ in 0..FOR_OTHERS {
            if state.backlog.is_empty() {
                break;
            }
            let pieces: Vec<Bytes> = state.backlog.iter().take(TOGETHER).cloned().collect();
            drop(state);
            let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let written = pipe.try_write_vectored(&slices);
            state = self.state();
            match written {
                Ok(count) => {
                    state.took(count);
                    if count < pieces.iter().map(Bytes::len).sum() {
                        break;
                    }
                }
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        end = Err(error);
                    }
                    break;
                }
            }
        }
        state.writing = false;
        if !state.backlog.is_empty() {
            self.work.notify_one();
        }
        end
    }

    /// Writes what waits, until the input is closed. Returns why it cannot go on.
    pub(crate) async fn run(&self, patience: Duration) -> String {
        loop {
            self.work.notified().await;
            while let Some(pipe) = self.waiting() {
                match timeout(patience, pipe.writable()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return format!("cannot write to the child: {}", describe(&error)),
                    Err(_) => return format!("the child read nothing for {} s", patience.as_secs_f32()),
                }
                let mut state = self.state();
                // Whoever writes now says so when there is something left.
                if !state.writing {
                    state.writing = true;
                    if let Err(error) = self.write_what_waits(state, &pipe) {
                        return format!("cannot write to the child: {}", describe(&error));
                    }
                }
            }
        }
    }

    fn waiting(&self) -> Option<Arc<pipe::Sender>> {
        let state = self.state();
        if state.backlog.is_empty() || state.writing { None } else { state.pipe.clone() }
    }

    /// The child sees the end of its input.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.pipe = None;
        state.backlog.clear();
        state.bytes = 0;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, rest: Bytes) {
        if !rest.is_empty() {
            self.bytes += rest.len();
            self.backlog.push_back(rest);
        }
    }

    /// Before all that waits: the rest of what was begun.
    fn keep_first(&mut self, rest: [Bytes; PIECES]) {
        if self.pipe.is_none() {
            return;
        }
        for piece in rest.into_iter().rev().filter(|piece| !piece.is_empty()) {
            self.bytes += piece.len();
            self.backlog.push_front(piece);
        }
    }

    /// The pipe has so much of what waits. Nothing waits any more if the input was closed meanwhile.
    fn took(&mut self, mut written: usize) {
        while written > 0
            && let Some(front) = self.backlog.front_mut()
        {
            let of_this = written.min(front.len());
            front.advance(of_this);
            written -= of_this;
            self.bytes -= of_this;
            if front.is_empty() {
                self.backlog.pop_front();
            }
        }
    }
}

/// A message is one line: line breaks between its tokens become spaces (inside strings JSON has none).
fn one_line(message: &Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', message).is_none() {
        return message.clone();
    }
    message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_child_that_reads_nothing_is_kept_as_many_messages_as_may_wait_and_no_more() {
        let (pipe, _reader) = pipe::pipe().unwrap();
        let inlet = Inlet::of(pipe);
        let message = Bytes::from(vec![b'x'; 1024]);
        let taken = (0..2 * BACKLOG).take_while(|_| inlet.write(&message).is_ok()).count();
        // What the pipe itself holds comes on top.
        assert!((BACKLOG..BACKLOG + 128).contains(&taken), "{taken}");
    }

    // L2: whoever writes, and however much, a line arrives as it was written
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn lines_written_by_many_at_once_are_not_torn() {
        use tokio::io::{AsyncBufReadExt, BufReader};
        let (pipe, reader) = pipe::pipe().unwrap();
        let inlet = Arc::new(Inlet::of(pipe));
        let late = inlet.clone();
        tokio::spawn(async move { late.run(Duration::from_secs(5)).await });
        const WHOLE: usize = 4096;
        const WRITERS: usize = 8;
        const EACH: usize = 200;
        for writer in 0..WRITERS {
            let inlet = inlet.clone();
            tokio::spawn(async move {
                for number in 0..EACH {
                    // Shorter than what a pipe takes whole, as long, longer, and longer than a pipe.
                    let length = [10, WHOLE - 1, WHOLE, 3 * WHOLE, 100_000][number % 5];
                    let message = Bytes::from(vec![b'a' + writer as u8; length]);
                    while inlet.write(&message).is_err() {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            });
        }
        let mut lines = BufReader::new(reader).lines();
        let mut seen = [0; WRITERS];
        for _ in 0..WRITERS * EACH {
            let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.unwrap().unwrap().unwrap();
            let writer = line.as_bytes()[0];
            assert!(line.bytes().all(|byte| byte == writer), "a line of {} bytes is torn", line.len());
            let place = usize::from(writer - b'a');
            assert_eq!(line.len(), [10, WHOLE - 1, WHOLE, 3 * WHOLE, 100_000][seen[place] % 5], "in the order of its writer");
            seen[place] += 1;
        }
    }
}
