// Runs all passive scan rules of ZAP over recorded exchanges. Arguments: the folder of the exchanges, that of ZAP's files, that of the rules.
// An exchange NAME is NAME.url, NAME.request (header), NAME.body, NAME.response (header), NAME.answer (body). Writes one
// line for each alert: risk (0 to 3), rule, name, exchange, parameter, evidence, separated by tabs.

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.ResourceBundle;
import net.htmlparser.jericho.Source;
import org.parosproxy.paros.Constant;
import org.parosproxy.paros.control.Control;
import org.parosproxy.paros.core.scanner.Alert;
import org.parosproxy.paros.core.scanner.Plugin.AlertThreshold;
import org.parosproxy.paros.model.HistoryReference;
import org.parosproxy.paros.model.Model;
import org.parosproxy.paros.network.HttpMessage;
import org.zaproxy.zap.extension.pscan.PassiveScanActions;
import org.zaproxy.zap.extension.pscan.PassiveScanData;
import org.zaproxy.zap.extension.pscan.PluginPassiveScanner;
import org.zaproxy.zap.utils.ZapXmlConfiguration;

public class PassiveScan implements PassiveScanActions {
  private static final String RULES = "org.zaproxy.zap.extension.pscanrules.";
  private String exchange = "";

  public static void main(String[] arguments) throws Exception {
    Constant.setZapHome(arguments[1]);
    Constant.getInstance();
    Constant.messages.addMessageBundle(
        "pscanrules", ResourceBundle.getBundle(RULES + "resources.Messages", Locale.ROOT));
    Control.initSingletonForTesting();
    Model.setSingletonForTesting(new Model());
    Model.getSingleton().getOptionsParam().load(new ZapXmlConfiguration());
    Path classes = Path.of(arguments[2]);
    String[] names = classes.toFile().list((folder, name) -> name.endsWith("ScanRule.class"));
    Arrays.sort(names);
    PassiveScan scan = new PassiveScan();
    int rules = 0;
    for (String name : names) {
      Class<?> type = Class.forName(RULES + name.replace(".class", ""));
      if (!PluginPassiveScanner.class.isAssignableFrom(type)) {
        continue;
      }
      rules++;
      for (File url : Path.of(arguments[0]).toFile().listFiles((folder, each) -> each.endsWith(".url"))) {
        PluginPassiveScanner rule = (PluginPassiveScanner) type.getDeclaredConstructor().newInstance();
        rule.setConfig(new ZapXmlConfiguration());
        rule.setAlertThreshold(AlertThreshold.MEDIUM);
        scan.apply(rule, url.getPath().replaceAll("\\.url$", ""));
      }
    }
    System.out.println("rules\t" + rules);
    System.exit(0);
  }

  private void apply(PluginPassiveScanner rule, String base) throws Exception {
    exchange = Path.of(base).getFileName().toString();
    HttpMessage message =
        new HttpMessage(text(base + ".request"), bytes(base + ".body"), text(base + ".response"), bytes(base + ".answer"));
    message.getRequestHeader().setURI(new org.apache.commons.httpclient.URI(text(base + ".url"), true));
    message.setResponseFromTargetHost(true);
    rule.setPassiveScanActions(this);
    rule.setHelper(new PassiveScanData(message));
    rule.scanHttpRequestSend(message, -1);
    rule.scanHttpResponseReceive(message, -1, new Source(message.getResponseBody().toString()));
  }

  @Override
  public void addHistoryTag(HistoryReference reference, String tag) {}

  @Override
  public void raiseAlert(HistoryReference reference, Alert alert) {
    System.out.println(
        String.join(
            "\t",
            String.valueOf(alert.getRisk()),
            String.valueOf(alert.getPluginId()),
            alert.getName(),
            exchange,
            flat(alert.getParam()),
            flat(alert.getEvidence())));
  }

  private static String flat(String text) {
    return text == null ? "" : text.replaceAll("\\s+", " ").substring(0, Math.min(120, text.length()));
  }

  private static byte[] bytes(String path) throws Exception {
    return Files.readAllBytes(Path.of(path));
  }

  private static String text(String path) throws Exception {
    return new String(bytes(path), StandardCharsets.ISO_8859_1);
  }
}
