import './console.css';
import { render } from 'preact';
import { Console } from './frame.js';

render(<Console />, document.body);
