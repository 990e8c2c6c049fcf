package dev.archon.sdk;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The page about Java quotes the examples, which are compiled, exactly. */
class DocsTest {
  private static final Pattern BLOCK = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

  @Test
  void thePageQuotesTheExamples() throws Exception {
    String page = Files.readString(Path.of("../../docs/java.md"));
    List<String> sources = new ArrayList<>();
    try (Stream<Path> files = Files.walk(Path.of("src/examples/java"))) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        sources.add(unindented(Files.readString(file)));
      }
    }
    Matcher blocks = BLOCK.matcher(page);
    int count = 0;
    while (blocks.find()) {
      String quoted = unindented(blocks.group(1));
      assertTrue(sources.stream().anyMatch(source -> source.contains(quoted)), () -> "no example has\n" + quoted);
      count++;
    }
    assertTrue(count >= 10, "the page has too few samples");
  }

  private static String unindented(String text) {
    return text.lines().map(String::stripLeading).reduce("", (all, line) -> all + line + "\n");
  }
}
