//! What the engine needs to know of the process: which code ran, how much memory was taken, how much time was spent.
//! The only unsafe code of the fuzzer.
#![allow(unsafe_code, reason = "counters the compiler makes, an allocator, a clock and a limit of the C library")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

static COUNTERS: AtomicUsize = AtomicUsize::new(0);
static COUNTERS_END: AtomicUsize = AtomicUsize::new(0);

/// Called before `main` by code that was built by `instrument`: where its counters are, one byte for each edge. Every object calls
/// it, with the same place.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, end: *mut u8) {
    COUNTERS.store(start as usize, Relaxed);
    COUNTERS_END.store(end as usize, Relaxed);
}

/// The edges of the code, eight to a word; empty if it was built without counters. What is left of a word at either end is
/// not worth the trouble.
pub fn edges() -> &'static [AtomicU64] {
    let (start, end) = (COUNTERS.load(Relaxed).next_multiple_of(8), COUNTERS_END.load(Relaxed) & !7);
    if start == 0 || end <= start {
        return &[];
    }
    // SAFETY: the linker laid out these bytes for counters; they live as long as the program and are aligned by the lines
    // above. Whoever counts in another thread at the same time makes a count wrong, and nothing else.
    unsafe { std::slice::from_raw_parts(start as *const AtomicU64, (end - start) / 8) }
}

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, and a count of what it gave.
pub struct Counting;

impl Counting {
    fn more(size: usize) {
        let now = NOW.fetch_add(size, Relaxed) + size;
        if now > MOST.load(Relaxed) {
            MOST.store(now, Relaxed);
        }
    }
}

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of anybody.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::more(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Counting::more(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Relaxed);
        Counting::more(size);
        unsafe { System.realloc(place, layout, size) }
    }
}

/// Begins to look at memory; returns what is taken now.
pub fn memory() -> usize {
    let now = NOW.load(Relaxed);
    MOST.store(now, Relaxed);
    now
}

/// The most that was taken at once since [`memory`], beyond what was taken then.
pub fn memory_since(before: usize) -> usize {
    MOST.load(Relaxed).saturating_sub(before)
}

/// How long the processors have worked for this process. Unlike time, this is the same on a busy machine.
pub fn worked() -> Duration {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock writes into the place it is given, which is ours.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut spec) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(spec.tv_sec.unsigned_abs(), u32::try_from(spec.tv_nsec).unwrap_or(0))
}

/// From here on the system refuses this process more memory than this. Unlike a count of our own this holds for every library, and unlike a
/// bound on addresses it lets threads reserve what they never touch.
pub fn bound_memory(bytes: u64) {
    let bound = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is read from the place it is given, which is ours.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const bound) };
    assert_eq!(done, 0, "the memory of a worker can be bounded");
}
