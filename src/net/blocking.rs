//! Work on large bodies, which would keep a thread busy that other streams wait for.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// From so many bytes on; the work on fewer takes about as long as two events of a
/// stream are apart.
const LARGE_BYTES: usize = 1 << 20;

/// Does work on a body of this many bytes. If that is large, another thread takes
/// over what else this one had to do; a runtime of a single thread has none.
pub(crate) fn block_in_place_if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let handed_over = bytes >= LARGE_BYTES
        && Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if handed_over {
        block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::runtime::Builder;

    use super::*;

    /// A stream that waits for the only thread goes on meanwhile.
    #[test]
    fn others_go_on_beside_large_work() {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let (done, other) = channel();
        let work = runtime.spawn(async move {
            tokio::spawn(async move { done.send(()).unwrap() });
            block_in_place_if_large(LARGE_BYTES, || other.recv().unwrap());
        });
        runtime.block_on(work).unwrap();
    }

    #[test]
    fn small_work_and_work_on_a_single_thread_is_done_at_once() {
        assert_eq!(block_in_place_if_large(LARGE_BYTES, || 1), 1);
        let single = Builder::new_current_thread().build().unwrap();
        assert_eq!(
            single.block_on(async { block_in_place_if_large(LARGE_BYTES, || 2) }),
            2
        );
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let here = async {
            (
                std::thread::current().id(),
                block_in_place_if_large(1, || std::thread::current().id()),
            )
        };
        let (before, within) = runtime.block_on(runtime.spawn(here)).unwrap();
        assert_eq!(before, within);
    }
}
