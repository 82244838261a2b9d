//! A bare loopback hop: what any process in the middle of a stream adds at least.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use crate::frame::Failure;

/// Prints its own port, then forwards each connection to `target` byte for byte until it is killed. A process of
/// its own, as the host is.
pub(crate) fn forward(target: SocketAddr) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (near, _) = listener.accept()?;
        let far = TcpStream::connect(target)?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let (near_too, far_too) = (near.try_clone()?, far.try_clone()?);
        std::thread::spawn(move || pump(near, far));
        std::thread::spawn(move || pump(far_too, near_too));
    }
}

/// Copies until either side is done; then the other side learns it too.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(n) = from.read(&mut buffer) {
        if n == 0 || to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    // A side that is gone already needs no goodbye.
    let _ = to.shutdown(Shutdown::Write);
}
