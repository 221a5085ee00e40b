import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Posts the same body twice over one client and prints the status codes. */
class Submit {
  public static void main(String[] arguments) throws Exception {
    HttpClient client = HttpClient.newHttpClient();
    for (int time = 0; time < 2; time++) {
      HttpRequest request =
          HttpRequest.newBuilder(URI.create(arguments[0]))
              .header("Content-Type", "application/json")
              .POST(HttpRequest.BodyPublishers.ofString(arguments[1]))
              .build();
      System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
    }
  }
}
