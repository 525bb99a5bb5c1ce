package headwater.files;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files without its child processes.
 *
 * <p>Without its native library, Hadoop runs {@code chmod} for each file and directory that it creates, {@code ls}
 * for permissions, and {@code readlink} for links. Java can do all of this itself. Everything else is Hadoop's, also
 * the names that the locale cannot encode: Java has no path for them, and Hadoop treats them as missing.
 */
final class RawLocalFiles extends RawLocalFileSystem {
  /** The attribute with all permission bits; POSIX attributes have no sticky bit. */
  private static final String MODE = "unix:mode";

  /** The bits that Hadoop reads from {@code ls}. */
  private static final int PERMISSIONS = 01777;

  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    try {
      Files.setAttribute(local(path), MODE, (int) permission.toShort());
    } catch (NoSuchFileException missing) {
      throw notFound(path, missing);
    } catch (InvalidPathException unnamed) {
      super.setPermission(path, permission);
    }
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    try {
      return status(path);
    } catch (InvalidPathException unnamed) {
      return super.getFileStatus(path);
    }
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    FileStatus found = getFileStatus(path);
    return found.isDirectory() ? super.listStatus(path) : new FileStatus[] {found};
  }

  @Override
  public FileStatus getFileLinkStatus(Path path) throws IOException {
    try {
      java.nio.file.Path file = local(path);
      if (!Files.isSymbolicLink(file)) {
        return status(path);
      }
      LocalStatus link = status(path, LinkOption.NOFOLLOW_LINKS);
      link.setSymlink(new Path(file.resolveSibling(Files.readSymbolicLink(file)).toUri()));
      return link;
    } catch (InvalidPathException unnamed) {
      return super.getFileStatus(path);
    }
  }

  /** The target as the link contains it; FileContext asks for it when it resolves a path. */
  @Override
  public Path getLinkTarget(Path path) throws IOException {
    try {
      java.nio.file.Path file = local(path);
      if (Files.isSymbolicLink(file)) {
        return new Path(Files.readSymbolicLink(file).toString());
      }
      // Fails: it is no link.
      return status(path).getSymlink();
    } catch (InvalidPathException unnamed) {
      return super.getLinkTarget(path);
    }
  }

  private LocalStatus status(Path path, LinkOption... options) throws IOException {
    java.nio.file.Path file = local(path);
    try {
      PosixFileAttributes found =
          (PosixFileAttributes) Files.readAttributes(file, PosixFileAttributes.class, options);
      Path qualified = new Path(file.toString()).makeQualified(getUri(), getWorkingDirectory());
      return new LocalStatus(found, file, options, getDefaultBlockSize(path), qualified);
    } catch (FileSystemException problem) {
      // For Hadoop, a link that leads nowhere or a path through a file does not exist, for whatever reason.
      throw file.toFile().exists() ? problem : notFound(path, problem);
    }
  }

  private java.nio.file.Path local(Path path) {
    return pathToFile(path).toPath();
  }

  private static FileNotFoundException notFound(Path path, IOException cause) {
    FileNotFoundException problem = new FileNotFoundException("File " + path + " does not exist");
    problem.initCause(cause);
    return problem;
  }

  /** The status of a file; its sticky bit and the names of its owner and group are read when they are asked for. */
  private static final class LocalStatus extends FileStatus {
    private static final long serialVersionUID = 1L;

    private transient PosixFileAttributes attributes;
    private transient java.nio.file.Path file;
    private transient LinkOption[] options;

    LocalStatus(
        PosixFileAttributes found, java.nio.file.Path file, LinkOption[] options, long blockSize, Path path) {
      super(
          found.isSymbolicLink() ? 0 : found.size(),
          found.isDirectory(),
          1,
          blockSize,
          found.lastModifiedTime().toMillis(),
          found.lastAccessTime().toMillis(),
          FsPermission.valueOf("-" + PosixFilePermissions.toString(found.permissions())),
          null,
          null,
          path);
      this.attributes = found;
      this.file = file;
      this.options = options;
    }

    @Override
    public FsPermission getPermission() {
      loadMode();
      return super.getPermission();
    }

    @Override
    public String getOwner() {
      load();
      return super.getOwner();
    }

    @Override
    public String getGroup() {
      load();
      return super.getGroup();
    }

    // Not private: the compiler makes private methods static and renames them, and Java would not find the second.
    synchronized void load() {
      if (attributes != null) {
        setOwner(attributes.owner().getName());
        setGroup(attributes.group().getName());
        attributes = null;
      }
    }

    // Spark lists directories without asking for permissions, so a listing does not read each file twice.
    synchronized void loadMode() {
      if (file != null) {
        try {
          int mode = ((Integer) Files.getAttribute(file, MODE, options)).intValue();
          setPermission(new FsPermission((short) (mode & PERMISSIONS)));
        } catch (IOException gone) {
          // The permissions stay those that were read with the rest.
        } finally {
          file = null;
        }
      }
    }

    /** Another process gets a plain status. */
    protected Object writeReplace() throws IOException {
      return new FileStatus(
          getLen(),
          isDirectory(),
          getReplication(),
          getBlockSize(),
          getModificationTime(),
          getAccessTime(),
          getPermission(),
          getOwner(),
          getGroup(),
          isSymlink() ? getSymlink() : null,
          getPath());
    }
  }
}
