//! Compiles what a peer needs that Rust cannot call.

fn main() {
    #[cfg(feature = "wiredtiger")]
    {
        println!("cargo::rerun-if-changed=src/subjects/wiredtiger.c");
        cc::Build::new()
            .file("src/subjects/wiredtiger.c")
            .compile("buckets");
        println!("cargo::rustc-link-lib=wiredtiger");
    }
}
