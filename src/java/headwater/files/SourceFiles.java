package headwater.files;

import java.io.Serializable;
import java.net.URI;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/**
 * Decides which listed files a source without partition directories reads.
 *
 * <p>Spark asks once per listed file, before a batch is planned. A file in a directory that the source ignores is
 * not read. A file in a {@code key=value} directory fails the query: its columns would be null. Headwater passes
 * the settings as options of the source, which Spark adds to Hadoop's configuration. Without them, every file is
 * read.
 */
public final class SourceFiles implements PathFilter, Configurable, Serializable {
  private static final long serialVersionUID = 1L;
  private static final Pattern KEY_DIRECTORY = Pattern.compile("/[^/=]+=[^/]*(?=/)");

  private transient Configuration conf;
  private String directory;
  private Pattern read;
  private Pattern below;
  private int keys;
  private String failure;

  @Override
  public void setConf(Configuration given) {
    conf = given;
    directory = given.get("headwater.files.directory");
    if (directory == null) {
      return;
    }
    read = Pattern.compile(given.get("headwater.files.read"), Pattern.DOTALL);
    below = Pattern.compile(given.get("headwater.files.below"), Pattern.DOTALL);
    keys = given.getInt("headwater.files.keys", 0);
    failure = given.get("headwater.files.failure");
  }

  @Override
  public Configuration getConf() {
    return conf;
  }

  @Override
  public boolean accept(Path file) {
    String path = file.toUri().getPath();
    if (directory == null || isHidden(file.getName()) || isIn(path)) {
      return true;
    }
    if (!read.matcher(path).matches() && below.matcher(path).lookingAt()) {
      return false;
    }
    if (keysOf(path) != keys) {
      throw new IllegalStateException(failure + " " + address(file.toUri()));
    }
    return true;
  }

  /** Whether a file is in the directory itself, as almost every file is. */
  private boolean isIn(String path) {
    return path.startsWith(directory) && path.indexOf('/', directory.length()) < 0;
  }

  /** Spark skips these after this filter. */
  private static boolean isHidden(String name) {
    return name.startsWith(".") || name.endsWith("._COPYING_") || (name.startsWith("_") && name.indexOf('=') < 0);
  }

  /** The address as Spark writes it. */
  private static String address(URI file) {
    return file.getAuthority() == null ? file.getScheme() + "://" + file.getRawPath() : file.toString();
  }

  private static int keysOf(String path) {
    int found = 0;
    Matcher matcher = KEY_DIRECTORY.matcher(path);
    while (matcher.find()) {
      found++;
    }
    return found;
  }
}
