"""A headless Chromium, driven over the WebDriver protocol with nothing but Python's own library."""
import json
import re
import subprocess
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # The protocol's name for a reference to an element.
KEYS = {"right": "\ue014", "left": "\ue012", "down": "\ue015", "up": "\ue013", "home": "\ue011", "end": "\ue010",
        "page_down": "\ue00f", "page_up": "\ue00e", "escape": "\ue00c", "tab": "\ue004", "space": "\ue00d"}


class Browser:
    """One window. Closing it ends the browser and its driver."""

    def __init__(self):
        try:
            self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        except FileNotFoundError:
            raise SystemExit("chromedriver is missing; install Debian's chromium and chromium-driver") from None
        self.address = f"http://127.0.0.1:{self._port()}"
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"],
                   "perfLoggingPrefs": {"enableNetwork": True, "enablePage": False}}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        try:
            session = self._send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except Exception:
            self.driver.kill()
            raise
        self.session = f"/session/{session['sessionId']}"

    def _port(self):
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                return found.group(1)
        raise SystemExit("chromedriver did not start")

    def _send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def _command(self, path, body):
        return self._send("POST", self.session + path, body)

    def close(self):
        self._send("DELETE", self.session)
        self.driver.terminate()
        self.driver.wait()
        self.driver.stdout.close()

    def open(self, url):
        """Opens the page anew, also where only the part after # differs."""
        self._command("/url", {"url": "about:blank"})
        self._command("/url", {"url": url})

    def script(self, text, *arguments):
        """What the body of a function returns; elements come as references."""
        return self._command("/execute/sync", {"script": text, "args": list(arguments)})

    def find(self, selector):
        return self._command("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self._command(f"/element/{self.find(selector)}/click", {})

    def text(self, selector):
        return self._send("GET", f"{self.session}/element/{self.find(selector)}/text")

    def write(self, selector, text):
        element = self.find(selector)
        self._command(f"/element/{element}/clear", {})
        self._command(f"/element/{element}/value", {"text": text})

    def press(self, *keys):
        """Keys by name, or characters, for the element that has the focus."""
        actions = []
        for key in keys:
            code = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": code}, {"type": "keyUp", "value": code}]
        self._command("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def hover(self, selector):
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self.find(selector)}}
        self._command("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def wheel(self, selector, delta):
        scroll = {"type": "scroll", "duration": 0, "x": 0, "y": 0, "deltaX": 0, "deltaY": delta, "origin": {ELEMENT: self.find(selector)}}
        self._command("/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [scroll]}]})

    def drag(self, selector, pixels):
        """Sideways."""
        steps = [{"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self.find(selector)}},
                 {"type": "pointerDown", "button": 0},
                 {"type": "pointerMove", "duration": 0, "x": pixels, "y": 0, "origin": "pointer"},
                 {"type": "pointerUp", "button": 0}]
        self._command("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": steps}]})

    def wait_for_frame(self):
        """Until what the page asked to be drawn has been drawn."""
        self._command("/execute/async", {"script": "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))", "args": []})

    def devtools(self, command, **parameters):
        return self._command("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def print_on_paper(self, scheme):
        """As a printer sees the page, whatever colours its owner prefers."""
        self.devtools("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def unnamed(self):
        """The roles of what the keyboard can reach, but a screen reader has no name for."""
        nodes = self.devtools("Accessibility.getFullAXTree")["nodes"]
        reached = [node for node in nodes if not node["ignored"] and node["role"]["value"] != "RootWebArea" and
                   any(one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", []))]
        return [node["role"]["value"] for node in reached if not node["name"]["value"]]

    def console(self):
        """Messages since the last call."""
        return [entry["message"] for entry in self._command("/se/log", {"type": "browser"})]

    def requests(self):
        """The addresses that were asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self._command("/se/log", {"type": "performance"})]
        return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]

    def screenshot(self):
        """The whole page as PNG, in base64."""
        return self.devtools("Page.captureScreenshot", captureBeyondViewport=True)["data"]
