package headwater.files;

import org.apache.hadoop.fs.LocalFileSystem;

/** Hadoop's local file system with checksums, on {@link RawLocalFiles}: the value of {@code fs.file.impl}. */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new RawLocalFiles());
  }
}
