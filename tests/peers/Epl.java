import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.common.client.hook.exception.ExceptionHandler;
import com.espertech.esper.common.client.hook.exception.ExceptionHandlerFactory;
import com.espertech.esper.common.client.hook.exception.ExceptionHandlerFactoryContext;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.DeploymentOptions;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;

/** Esper over cases from stdin: `rows N`, N lines `g t i kind v`, then a statement whose columns are events. `tests/peers/esper.py` writes and reads. */
public class Epl {
  static final long BEYOND_MS = 1_000_000;

  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    Map<String, Object> type = new HashMap<>();
    for (String name : new String[] {"g", "i", "kind", "v"}) type.put(name, int.class);
    configuration.getCommon().addEventType("Events", type);
    configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
    configuration.getRuntime().getExceptionHandling().addClass(Thrown.class);
    EPRuntime runtime = EPRuntimeProvider.getRuntime("peer", configuration);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    long begun = 0;
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      int[][] rows = new int[Integer.parseInt(line.split(" ")[1])][5];
      for (int[] row : rows) {
        String[] words = in.readLine().split(" ");
        for (int k = 0; k < 5; k++) row[k] = Integer.parseInt(words[k]);
      }
      StringBuilder found = new StringBuilder();
      begun += BEYOND_MS;
      try {
        answer(runtime, configuration, in.readLine(), rows, begun, found);
      } catch (Exception error) {
        found.append("error ").append(String.valueOf(error).replace('\n', ' ')).append('\n');
      }
      runtime.getDeploymentService().undeployAll();
      System.out.print(found.append("end\n"));
      System.out.flush();
    }
  }

  /** It would only log them. */
  public static class Thrown implements ExceptionHandlerFactory {
    @Override
    public ExceptionHandler getHandler(ExceptionHandlerFactoryContext context) {
      return each -> {
        throw new IllegalStateException(each.getThrowable());
      };
    }
  }

  static void answer(EPRuntime runtime, Configuration configuration, String text, int[][] rows, long begun, StringBuilder found)
      throws Exception {
    runtime.getEventService().advanceTime(begun);
    EPCompiled compiled = EPCompilerProvider.getCompiler().compile(text, new CompilerArguments(configuration));
    EPDeployment deployed = runtime.getDeploymentService().deploy(compiled, new DeploymentOptions());
    deployed.getStatements()[deployed.getStatements().length - 1].addListener((events, old, statement, own) -> {
      for (EventBean event : events == null ? new EventBean[0] : events) tell(event, found);
    });
    for (int[] row : rows) {
      runtime.getEventService().advanceTime(begun + row[1]);
      runtime.getEventService().sendEventMap(Map.of("g", row[0], "i", row[2], "kind", row[3], "v", row[4]), "Events");
    }
    runtime.getEventService().advanceTime(begun + BEYOND_MS - 1);
  }

  /** match NAME:I,I … of the columns that are events, those that are not NULL. */
  static void tell(EventBean event, StringBuilder found) {
    found.append("match");
    for (String name : event.getEventType().getPropertyNames()) {
      Object value = event.get(name);
      Object[] events = value instanceof Object[] ? (Object[]) value : value == null ? new Object[0] : new Object[] {value};
      for (int k = 0; k < events.length; k++) {
        found.append(k == 0 ? " " + name + ":" : ",");
        found.append(events[k] instanceof EventBean ? ((EventBean) events[k]).get("i") : ((Map<?, ?>) events[k]).get("i"));
      }
    }
    found.append('\n');
  }
}
